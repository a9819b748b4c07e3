"""What JSON answers have in common that differ in names and values only."""

from __future__ import annotations

import json
from typing import Any

# Words that JSON Schema means; every other key is a name.
SCHEMA_WORDS = {
    "type",
    "properties",
    "required",
    "enum",
    "items",
    "minimum",
    "maximum",
    "maxLength",
    "additionalProperties",
}
TYPES = {"object", "string", "integer", "number", "boolean", "array"}


def shape(value: Any) -> str:
    """Names by order of appearance, values by type, lists by length."""
    described = isinstance(value, dict) and value.get("type") == "object" and "properties" in value
    return json.dumps(_shape(value, {}, described))


def _shape(value: Any, names: dict[str, str], described: bool) -> Any:
    if isinstance(value, dict):
        return [[_name(key, names, described), _shape(part, names, described)] for key, part in value.items()]
    if isinstance(value, list):
        return [len(value), [_shape(part, names, described) for part in value]]
    if described and isinstance(value, str):
        return value if value in TYPES else names.get(value, "?")
    return type(value).__name__


def _name(key: str, names: dict[str, str], described: bool) -> str:
    if described and key in SCHEMA_WORDS:
        return key
    return names.setdefault(key, f"i{len(names) + 1}")
