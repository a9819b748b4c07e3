"""The JSON Schema of a file, or of a part of it: a definition, or a schema of an OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, count
from typing import Any
from urllib.parse import unquote

from expert_worker.errors import BadInput

from .ddl import MOST_BYTES
from .yaml_text import read_yaml

LARGEST = 1 << 20
HINT = "Name a JSON Schema of one object with `properties`."
_NAMED_IN = (("components", "schemas"), ("definitions",), ("$defs",))
_MOST_NAMES = 8
MOST_REFERENCES = 40


@dataclass(frozen=True)
class Document:
    # Always with a title, from which names of the rows follow.
    schema: dict[str, Any]
    # Of the file, for messages.
    name: str
    # The schema's own file, from which the same rows can be made again.
    copy: bytes


def read_document(data: bytes, name: str, part: str | None = None) -> Document:
    """`part` is a definition's name, or a JSON Pointer such as /components/schemas/Order."""
    found = _parsed(data, name)
    if part:
        schema = _standalone(found, part, name)
        return Document(schema, name, _written(schema, name))
    named = _named(found)
    if named and not found.keys() & {"properties", "$ref", "allOf", "oneOf", "anyOf"}:
        kind = "an OpenAPI document" if _is_openapi(found) else "a JSON Schema of several definitions"
        raise BadInput(
            f"{name} is {kind}", code="bad-schema", hint=f"Name one of its schemas: {_some(named, name)}."
        )
    _checked(data, name)
    title = found.get("title") or name.split(".", maxsplit=1)[0]
    schema = {**found, "title": title}
    if _is_yaml(name) or found.get("title", title) != title:
        return Document(schema, name, _written(schema, name))
    return Document(schema, name, data if "title" in found else _with_title(data, title))


def _parsed(data: bytes, name: str) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise BadInput(f"{name} has more than {MOST_BYTES >> 20} MiB", code="bad-schema", hint=HINT)
    try:
        found = read_yaml(data) if _is_yaml(name) else json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = "YAML" if _is_yaml(name) else "JSON"
        raise BadInput(f"{name} is not {kind}: {error}", code="bad-schema", hint=HINT) from None
    if not isinstance(found, dict):
        raise BadInput(f"{name} is not one object", code="bad-schema", hint=HINT)
    return found


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))


def _written(schema: dict[str, Any], name: str) -> bytes:
    try:
        data = json.dumps(schema, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # A lone surrogate, which JSON can hold only as an escape.
        data = json.dumps(schema, indent=2).encode()
    return _checked(data + b"\n", name)


def _checked(data: bytes, name: str) -> bytes:
    if len(data) > LARGEST:
        raise BadInput(
            f"the schema of {name} has more than {LARGEST >> 20} MiB", code="bad-schema", hint=HINT
        )
    return data


def _with_title(data: bytes, title: str) -> bytes:
    """As it is written otherwise."""
    text = data.decode(json.detect_encoding(data))
    begin = text.index("{") + 1
    space = re.compile(r"\s*").match(text, begin)
    between = space[0] if space else ""
    return f'{text[:begin]}{between}"title": {json.dumps(title)},{text[begin:]}'.encode()


def _is_openapi(document: Mapping[str, Any]) -> bool:
    return "openapi" in document or "swagger" in document


def _named(document: Mapping[str, Any]) -> dict[str, str]:
    """The pointer of each definition, by its name."""
    found: dict[str, str] = {}
    for place in _NAMED_IN:
        definitions = at_keys(document, list(place))
        if isinstance(definitions, Mapping):
            found |= {key: "/".join(["", *place, _escaped(key)]) for key in definitions if key not in found}
    return found


def _some(named: Mapping[str, str], name: str) -> str:
    first, *others = list(named)[:_MOST_NAMES]
    more = f" (others: {', '.join(others)}{', ...' if len(named) > _MOST_NAMES else ''})" if others else ""
    return f"--schema '{name}#{first}'{more}"


def _standalone(document: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    """That part with what it refers to, under the same pointers."""
    named = _named(document)
    pointer = part if part.startswith("/") else named.get(part, "")
    keys, target = _behind(document, _split_pointer(pointer))
    if not isinstance(target, dict):
        hint = f"Name one of its schemas: {_some(named, name)}." if named else HINT
        raise BadInput(f"{name} has no schema {part[:60]!r}", code="bad-schema", hint=hint)
    # What its keywords mean depends on the draft.
    draft = {"$schema": document["$schema"]} if "$schema" in document else {}
    found: dict[str, Any] = {**draft, "title": keys[-1]} | deepcopy(target)
    waiting, seen = list(_references(target)), set()
    moved: dict[str, str] = {}
    taken = {*_definitions(document), *_definitions(target)}
    while waiting:
        reference = waiting.pop()
        keys = split_reference(reference)
        referred = at_keys(document, keys)
        if reference in seen or not isinstance(referred, Mapping):
            continue
        seen.add(reference)
        if not _is_within_definitions(document, keys):
            keys = ["$defs", _free_name(keys[-1], taken)]
            moved[reference] = "#/" + "/".join(keys)
        _put(found, keys, deepcopy(referred))
        waiting += _references(referred)
    found = _with_moved(found, moved)
    modern: dict[str, Any] = _modern(found) if _is_openapi(document) else found
    return modern


def _definitions(document: Mapping[str, Any]) -> Collection[str]:
    found = document.get("$defs")
    return found.keys() if isinstance(found, Mapping) else ()


def _is_within_definitions(document: object, keys: list[str]) -> bool:
    """Whether a place stays where it is: any other one means something in the part itself, as its properties,
    and one in a list cannot stand alone."""
    through = [at_keys(document, keys[:place]) for place in range(len(keys))]
    return keys[0] in {place[0] for place in _NAMED_IN} and not any(isinstance(it, list) for it in through)


def _free_name(key: str, taken: set[str]) -> str:
    stem = re.sub(r"\W", "_", key)
    name = next(name for name in chain([stem], (f"{stem}-{it}" for it in count(2))) if name not in taken)
    taken.add(name)
    return name


def _with_moved(schema: Any, moved: Mapping[str, str]) -> Any:
    """With references to the places that were moved."""
    if isinstance(schema, list):
        return [_with_moved(it, moved) for it in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_moved(value, moved) for key, value in schema.items()}
    reference = found.get("$ref")
    return {**found, "$ref": moved.get(reference, reference)} if isinstance(reference, str) else found


def _behind(document: dict[str, Any], keys: list[str]) -> tuple[list[str], object]:
    """The place that a pointer, or a chain of references, leads to, and what is there."""
    target = at_keys(document, keys) if keys else None
    for _ in range(MOST_REFERENCES):
        only_refers = isinstance(target, Mapping) and set(target) == {"$ref"}
        reference = next(_references(target), None) if only_refers else None
        if reference is None:
            break
        keys = split_reference(reference)
        target = at_keys(document, keys)
    return keys, target


def split_reference(reference: str) -> list[str]:
    """The keys of `#/$defs/Page%3COrder%3E`: in a reference a pointer is percent-encoded."""
    return _split_pointer(unquote(reference))


def _split_pointer(pointer: str) -> list[str]:
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def at_keys(document: object, keys: list[str]) -> object:
    """What a pointer leads to; None where it leads nowhere."""
    for key in keys:
        if isinstance(document, list) and key.isdecimal() and int(key) < len(document):
            document = document[int(key)]
        elif isinstance(document, Mapping) and key in document:
            document = document[key]
        else:
            return None
    return document


def _put(document: dict[str, Any], keys: list[str], value: object) -> None:
    for key in keys[:-1]:
        inner = document.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        document = inner
    document[keys[-1]] = value


def _references(schema: object) -> Iterator[str]:
    """Pointers into the same document."""
    if isinstance(schema, Mapping):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            yield reference
    for inner in (
        schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list) else ()
    ):
        yield from _references(inner)


def _modern(schema: object) -> Any:
    """OpenAPI 3.0 has `nullable` and limits that are exclusive or not, which JSON Schema writes otherwise."""
    if isinstance(schema, list):
        return [_modern(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _modern(value) for key, value in schema.items()}
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(exclusive), bool):
            is_exclusive = found.pop(exclusive)
            if is_exclusive and limit in found:
                found[exclusive] = found.pop(limit)
    if isinstance(found.get("nullable"), bool):
        is_nullable = found.pop("nullable")
        if is_nullable and isinstance(found.get("type"), str):
            found["type"] = [found["type"], "null"]
    return found
