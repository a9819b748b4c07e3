"""`response_format` of a request, as a grammar. What an engine could not survive is refused here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from expert_worker.endpoint.nulls import NullsAbsent
from expert_worker.endpoint.refusals import Refused
from expert_worker.evaluate.multiples import check_multiples
from expert_worker.plan import Grammar

_PARAM = "response_format"
_MOST_BYTES = 32 << 10
_DEEPEST = 24
# llama.cpp writes every repetition out.
_MOST_REPEATS = 1_000
# Counts inside one another: llguidance needs a second of a core and 170 MB for a million, and then gives up.
_MOST_NESTED_REPEATS = 10_000
# One way to write it: with any white space between its parts, a model may write that without end.
_STYLE = {
    "whitespace_flexible": False,
    "whitespace_pattern": None,
    "item_separator": ", ",
    "key_separator": ": ",
}
_OPTIONS = "x-guidance"
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# An escape, a set of characters, or a count; anything else is one character. Nothing here backtracks, because
# patterns come from clients.
_PATTERN_PARTS = re.compile(r"\\.|\[(?:\\.?|[^\]\\])*\]?|\{(?P<counts>[\s\d,]*)\}|.", re.DOTALL)


class TextFormat(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["text"]


class ObjectFormat(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["json_object"]


class NamedSchema(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    document: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    # Every answer conforms, with and without it.
    strict: bool | None = None


class SchemaFormat(NullsAbsent):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["json_schema"]
    json_schema: NamedSchema


class FlatSchemaFormat(NamedSchema):
    """As `/v1/responses` has it."""

    type: Literal["json_schema"]


ResponseFormat = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]
FlatFormat = Annotated[TextFormat | ObjectFormat | FlatSchemaFormat, Field(discriminator="type")]


def grammar_of(asked: ResponseFormat | FlatFormat | None, param: str = _PARAM) -> Grammar | None:
    """None where the request leaves the form to the model asked. `param` is the field that asks."""
    if isinstance(asked, ObjectFormat):
        return _grammar({"type": "object"})
    if asked is None or isinstance(asked, TextFormat):
        return None
    schema = asked.json_schema if isinstance(asked, SchemaFormat) else asked
    try:
        _check(schema.document)
    except ValueError as error:
        raise Refused(400, str(error), code="unsupported_schema", param=param) from None
    return _grammar(schema.document)


def _check(schema: dict[str, Any]) -> None:
    text = json.dumps(schema)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"The schema has {len(text)} bytes; at most {_MOST_BYTES} are taken")
    for depth, part in _parts(schema):
        if depth > _DEEPEST:
            raise ValueError(f"The schema is nested deeper than {_DEEPEST} levels")
        _check_counts(part)
    check_multiples(schema)


def _grammar(schema: dict[str, Any]) -> Grammar:
    given = schema.get(_OPTIONS)
    options = {**(given if isinstance(given, dict) else {}), **_STYLE}
    return Grammar(kind="json_schema", name=_PARAM, text=json.dumps({**schema, _OPTIONS: options}))


def _parts(document: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object in it, with its depth."""
    left = [(1, document)]
    while left:
        depth, part = left.pop()
        if isinstance(part, dict):
            yield depth, part
            left += [(depth + 1, inner) for inner in part.values()]
        elif isinstance(part, list):
            left += [(depth + 1, inner) for inner in part]


def _check_counts(part: dict[str, Any]) -> None:
    for name in _COUNTS:
        count = part.get(name)
        if isinstance(count, int | float) and count > _MOST_REPEATS:
            raise ValueError(f"{name} is {count}; at most {_MOST_REPEATS} is taken")
    named = part.get("patternProperties")
    for pattern in (part.get("pattern"), *(named if isinstance(named, dict) else ())):
        if isinstance(pattern, str):
            _check_repeats(pattern)


def _check_repeats(pattern: str) -> None:
    # Of each group that is open, the most repetitions of one of its parts; the first is the whole pattern.
    groups, part = [1], 1
    for found in _PATTERN_PARTS.finditer(pattern):
        counts = re.findall(r"\d+", found["counts"] or "")
        if counts:
            # Python refuses to read numbers of thousands of digits.
            count = max(int(digits.lstrip("0")[:9] or "0") for digits in counts)
            if count > _MOST_REPEATS:
                raise ValueError(f"The pattern repeats more than {_MOST_REPEATS} times")
            part *= max(count, 1)
            if part > _MOST_NESTED_REPEATS:
                raise ValueError(
                    f"The pattern repeats a part more than {_MOST_NESTED_REPEATS} times, counted through its "
                    "groups; make the counts smaller"
                )
        elif found[0] == "(":
            groups.append(1)
            part = 1
        elif found[0] == ")":
            part = groups.pop() if len(groups) > 1 else groups[0]
        elif found[0] not in "*+?":
            part = 1
        groups[-1] = max(groups[-1], part)
