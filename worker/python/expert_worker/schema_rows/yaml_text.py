"""YAML as JSON, with the values of YAML 1.2: OpenAPI documents are often written in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import yaml

# PyYAML in Python, whose composer can refuse aliases, reads about 0.3 MB in a second.
MOST_BYTES = 2 << 20
_TAG = "tag:yaml.org,2002:"
_RULES = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """`no`, `010` and `2024-01-31` are texts and a number, not false, 8 and a date."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # A few of them can stand for gigabytes.
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read", problem_mark=mark)
        return super().compose_node(parent, index)


for _name, _pattern, _first in _RULES:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_TAG + "int", lambda loader, node: int(loader.construct_scalar(node)))
_Loader.add_constructor(_TAG + "float", lambda loader, node: float(loader.construct_scalar(node)))


def read_yaml(data: bytes) -> Any:
    """Raises ValueError with the line of what cannot be read."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"YAML of more than {MOST_BYTES >> 20} MiB")
    try:
        return _with_text_keys(_Loader(data).get_single_data())
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}{error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value
