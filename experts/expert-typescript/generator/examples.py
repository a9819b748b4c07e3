"""Types from an example: JSON, an object literal, a class, columns; and from one kind of declaration to another."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind, Prop, declaration, members
from .task import Composition, Task
from .wording import DEMAND, phrase, typed

WORDS = (
    "north",
    "amber",
    "delta",
    "river",
    "basic",
    "Lena",
    "Oslo",
    "Milan",
    "Omar",
    "quick",
    "plain",
    "X-12",
    "B7",
    "late",
)
FROM_JSON = (
    DEMAND + " [an interface|a TypeScript interface] {name} for this [JSON|object|response|payload]",
    "[Convert|Turn] this JSON [to|into] an interface [called|named] {name}",
    "Interface {name} for this JSON",
    "interface {name} from json",
    "What is the [interface|TypeScript interface] {name} for this JSON?",
    "Our API returns this, [write|give me] the interface {name}",
    "[Infer|Derive] an interface {name} from this [example|object|JSON]",
    "Describe this [JSON|response] as an interface {name}",
    "[Type|I need to type] this response, call the interface {name}",
    "[Generate|Make] the {name} interface that fits this data",
)


def _value(prop: Prop, draw: Draw) -> Any:
    if prop.type == "number":
        return draw.one([draw.between(1, 99), draw.between(100, 5000), draw.between(10, 900) / 10])
    if prop.type == "boolean":
        return draw.chance(0.5)
    if prop.type == "string[]":
        return draw.some(WORDS, draw.between(1, 2))
    if prop.type == "number[]":
        return [draw.between(1, 50) for _ in range(draw.between(2, 3))]
    if prop.inner:
        return {part.name: _value(part, draw) for part in prop.inner}
    if prop.type == "Date":
        return f"2026-0{draw.between(1, 9)}-1{draw.between(0, 9)}"
    if prop.words:
        return draw.one(prop.words)
    if "email" in prop.name.lower():
        return f"{draw.one(WORDS).lower()}@example.org"
    if "url" in prop.name.lower() or prop.name == "website":
        return f"https://example.org/{draw.one(WORDS).lower()}"
    return f"{draw.one(['a', 'c', 'x'])}{draw.between(10, 99)}" if prop.name == "id" else draw.one(WORDS)


def _as_json(prop: Prop) -> Prop:
    """What the value in JSON is: dates and words are strings there."""
    return replace(prop, type="string", words=()) if prop.words or prop.type == "Date" else prop


def from_json(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 3, 5)
    return _from_json(kind, draw, props, 1)


def from_json_nested(kind: Kind, draw: Draw) -> Task:
    """With an object inside, typed in place."""
    props = kind.some(draw, 3, 5)
    cut = draw.between(1, len(props) - 2)
    inner = tuple(map(_as_json, props[cut:]))
    inside = "{ " + "; ".join(prop.line for prop in inner) + " }"
    group = Prop(draw.one(["details", "meta", "info", "data", "stats", "extra"]), inside, inner=inner)
    return _from_json(kind, draw, [*props[:cut], group], 3, "nested")


def from_json_list(kind: Kind, draw: Draw) -> Task:
    """With a list of objects inside, typed in place."""
    props = kind.some(draw, 3, 4)
    inner = tuple(map(_as_json, props[1:]))
    inside = "{ " + "; ".join(prop.line for prop in inner) + " }[]"
    name = f"{kind.name}{draw.one(['List', 'Page', 'Response'])}"
    count = draw.one(["total", "count", "page"])
    value = {count: draw.between(1, 90), kind.plural: [{part.name: _value(part, draw) for part in inner}]}
    answer = f"interface {name} {{\n  {count}: number;\n  {kind.plural}: {inside};\n}}"
    said = phrase(draw.one(FROM_JSON), draw, name=name)
    return Task(typed(said, draw, answer, _shown(value, draw)), answer, 3, ("from-json", "nested"))


def _from_json(kind: Kind, draw: Draw, props: list[Prop], level: int, *tags: str) -> Task:
    value = {prop.name: _value(prop, draw) for prop in props}
    plain = [_as_json(prop) for prop in props]
    alias = draw.chance(0.2)
    answer = f"type {kind.name} = {members(plain)};" if alias else declaration(kind.name, plain)
    said = phrase(draw.one(FROM_JSON), draw, name=kind.name)
    if alias:
        said = (
            said.replace("TypeScript interface", "type alias")
            .replace("an interface", "a type alias")
            .replace("interface", "type alias")
            .replace("Interface", "Type alias")
        )
    return Task(typed(said, draw, answer, _shown(value, draw)), answer, level, ("from-json", *tags))


def _shown(value: dict[str, Any], draw: Draw) -> str:
    return json.dumps(value, indent=2) if draw.chance(0.4) else json.dumps(value)


def null_in_json(kind: Kind, draw: Draw) -> Task:
    """A null in the example, with the words that say what else it can be."""
    props = [_as_json(prop) for prop in kind.some(draw, 2, 4)]
    one = draw.one([prop for prop in props if prop.type in ("string", "number")] or props[:1])
    value = {prop.name: None if prop is one else _value(prop, draw) for prop in props}
    marked = [replace(prop, type=f"{prop.type} | null") if prop is one else prop for prop in props]
    answer = declaration(kind.name, marked)
    note = draw.one(
        ["{name} is a {type} or null", "{name} can also be a {type}", "{name} is null or a {type}"]
    )
    if "[]" in one.type or one.type == "boolean":
        note = "{name} is {type} or null"
    told = note.format(name=one.name, type=one.type)
    said = phrase(draw.one(FROM_JSON), draw, name=kind.name).rstrip("?") + f" ({told})"
    return Task(typed(said, draw, answer, _shown(value, draw)), answer, 2, ("from-json", "nullable"))


def interface_to_type(kind: Kind, draw: Draw) -> Task:
    props = kind.some(draw, 2, 5, optional=draw.chance(0.4))
    given, answer = declaration(kind.name, props), f"type {kind.name} = {members(props)};"
    to_type = draw.chance(0.6)
    template = draw.one(
        [
            "[Convert|Change|Turn|Rewrite] this {from} [to|into] {into}",
            "[Use|Make it|I want] {into} instead of {from}",
            "Same as {into} please",
            "{from_bare} to {bare}",
            "Can this be {into}?",
            "How does this look as {into}?",
        ]
    )
    names = {"interface": ("an interface", "interface"), "type": ("a type alias", "type")}
    source, target = ("interface", "type") if to_type else ("type", "interface")
    said = phrase(
        template,
        draw,
        **{
            "from": names[source][1].replace("type", "type alias"),
            "into": names[target][0],
            "from_bare": source,
            "bare": target,
        },
    )
    if not to_type:
        given, answer = answer, given
    return Task(
        typed(said, draw, answer, given),
        answer,
        1,
        ("interface-to-type" if to_type else "type-to-interface",),
    )


def from_class(kind: Kind, draw: Draw) -> Task:
    """The interface of a class's fields."""
    props = kind.some(draw, 2, 4)
    name = f"{kind.name}{draw.one(['Data', 'Props', 'Shape', 'Fields'])}"
    fields = "".join(f"  {prop.name}: {prop.type};\n" for prop in props)
    first = props[0]
    body = (
        f"\n  constructor({first.name}: {first.type}) {{\n    this.{first.name} = {first.name};\n  }}\n"
        if draw.chance(0.4)
        else ""
    )
    given = f"class {kind.name} {{\n{fields}{body}}}"
    answer = declaration(name, props)
    template = draw.one(
        [
            DEMAND + " an interface {name} with the [fields|properties] of this class",
            "[Extract|Derive] an interface {name} from [the fields of|] this class, without methods",
            "Interface {name} for the fields of this class",
            "What interface {name} describes the data of this class?",
        ]
    )
    return Task(typed(phrase(template, draw, name=name), draw, answer, given), answer, 2, ("from-class",))


SQL_TYPES = {
    "string": ("TEXT", "VARCHAR(100)"),
    "number": ("INTEGER", "NUMERIC"),
    "boolean": ("BOOLEAN",),
    "Date": ("TIMESTAMP",),
}


def from_columns(kind: Kind, draw: Draw) -> Task:
    """The row type of a table: columns that may be NULL are `| null`."""
    props = [prop for prop in kind.some(draw, 3, 6) if prop.type in SQL_TYPES] or kind.of("string", "number")[
        :2
    ]
    nulls = {prop.name for prop in props[1:] if draw.chance(0.25)}
    columns = ",\n".join(
        f"  {prop.name} {draw.one(SQL_TYPES[prop.type])}{'' if prop.name in nulls else ' NOT NULL'}"
        for prop in props
    )
    marked = [replace(prop, type=f"{prop.type} | null") if prop.name in nulls else prop for prop in props]
    answer = declaration(kind.name, marked)
    template = draw.one(
        [
            DEMAND
            + " an interface {name} for a row of this table, with null where NULL is allowed and Date for timestamps",
            "Row interface {name} for this table (NULL columns: | null, timestamps: Date)",
            "Convert this table to an interface {name}; use Date for timestamps and | null where NULL is allowed",
            "Interface for a row, call it {name}. Nullable columns are unions with null, TIMESTAMP is Date",
        ]
    )
    said = phrase(template, draw, name=kind.name)
    given = f"CREATE TABLE {kind.plural.lower()} (\n{columns}\n);"
    return Task(typed(said, draw, answer, given), answer, 3, ("from-table",))


EXAMPLES: list[tuple[Composition, int]] = [
    (from_json, 13), (from_json_nested, 2), (from_json_list, 2), (null_in_json, 2), (interface_to_type, 4), (from_class, 2),
    (from_columns, 1),
]  # fmt: skip
