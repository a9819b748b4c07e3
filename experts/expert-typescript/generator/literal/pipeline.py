"""Expressions over an array: filtered, then reduced to an answer; the same thing said in English."""

from __future__ import annotations

from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, Field, quoted

SIGNS = {"above": ">", "below": "<", "at least": ">=", "at most": "<="}


@dataclass(frozen=True)
class Test:
    text: str
    code: str
    field: str
    tag: str


@dataclass(frozen=True)
class Pipeline:
    """`code` is an expression over the array, `type` its type, `used` the fields that it touches."""

    text: str
    code: str
    type: str
    used: frozenset[str]
    tags: tuple[str, ...]


def test(entity: Entity, draw: Draw, avoid: str = "") -> Test:
    field = draw.one([field for field in entity.fields if field.name != avoid])
    name = f"{entity.variable}.{field.name}"
    if field.kind == "boolean":
        yes = draw.chance(0.5)
        return Test(
            f"{field.name} is {'true' if yes else 'false'}", name if yes else f"!{name}", field.name, "flag"
        )
    if field.kind == "number":
        words, limit = draw.one(list(SIGNS)), draw.between(2, 900)
        return Test(
            f"{field.name} is {words} {limit}", f"{name} {SIGNS[words]} {limit}", field.name, "compare"
        )
    if field.kind == "string[]":
        word = draw.one(entity.words)
        return Test(f'{field.name} include "{word}"', f'{name}.includes("{word}")', field.name, "includes")
    return _text_test(field, name, entity, draw)


def _text_test(field: Field, name: str, entity: Entity, draw: Draw) -> Test:
    if "|" in field.kind:
        word, equal = draw.one(field.words), draw.chance(0.6)
        return Test(
            f"{field.name} is {'' if equal else 'not '}{quoted([word])}",
            f'{name} {"===" if equal else "!=="} "{word}"',
            field.name,
            "equals",
        )
    word, method = draw.one(entity.words), draw.one(["startsWith", "endsWith", "includes"])
    verb = {"startsWith": "starts with", "endsWith": "ends with", "includes": "contains"}[method]
    return Test(f'{field.name} {verb} "{word}"', f'{name}.{method}("{word}")', field.name, "text")


def tests(entity: Entity, draw: Draw, count: int) -> Test:
    """One condition, or two joined by one `and` or `or`."""
    first = test(entity, draw)
    if count == 1:
        return first
    second = test(entity, draw, first.field)
    word, sign = draw.one([("and", "&&"), ("and", "&&"), ("or", "||")])
    return Test(
        f"{first.text} {word} {second.text}",
        f"{first.code} {sign} {second.code}",
        f"{first.field} {second.field}",
        word,
    )


def pipeline(entity: Entity, draw: Draw, end: str) -> Pipeline:
    """`end` names what becomes of the rows that pass the filter."""
    found = tests(entity, draw, draw.weighted([1, 2], [0.6, 0.4]))
    filtered = f"{entity.plural}.filter(({entity.variable}) => {found.code})"
    said = f"the {entity.plural} whose {found.text}"
    text, code, kind, used = _ends(entity, draw, filtered, said, found.code)[end]
    fields = frozenset([*found.field.split(" "), *used])
    return Pipeline(text, code, kind, fields, (end, found.tag))


Ending = tuple[str, str, str, tuple[str, ...]]


def _ends(entity: Entity, draw: Draw, filtered: str, said: str, test_code: str) -> dict[str, Ending]:
    one, name = entity.variable, entity.name
    number, word, any_field = (
        entity.of(draw, "number"),
        entity.of(draw, "string"),
        entity.of(draw, "string", "number"),
    )
    listed, count = entity.of(draw, "string[]"), draw.between(2, 9)
    return {
        "filter": (f"Returns {said}.", filtered, f"{name}[]", ()),
        "map": (
            f"Returns the {any_field.name} of {said}.", f"{filtered}.map(({one}) => {one}.{any_field.name})",
            f"{any_field.type}[]", (any_field.name,),
        ),
        "count": (f"Counts {said}.", f"{filtered}.length", "number", ()),
        "sum": (
            f"Sums the {number.name} of {said}.", f"{filtered}.reduce((sum, {one}) => sum + {one}.{number.name}, 0)",
            "number", (number.name,),
        ),
        "join": (
            f"Joins the {word.name} of {said} with commas.", f'{filtered}.map(({one}) => {one}.{word.name}).join(", ")',
            "string", (word.name,),
        ),
        "slice": (f"Returns the first {count} of {said}.", f"{filtered}.slice(0, {count})", f"{name}[]", ()),
        "unique": (
            f"Returns the unique {word.name} of {said}.", f"[...new Set({filtered}.map(({one}) => {one}.{word.name}))]",
            "string[]", (word.name,),
        ),
        "max": (
            f"Returns the highest {number.name} of {said}.", f"Math.max(...{filtered}.map(({one}) => {one}.{number.name}))",
            "number", (number.name,),
        ),
        "sort": (
            f"Sorts {said} by {number.name}, lowest first.", f"{filtered}.sort((a, b) => a.{number.name} - b.{number.name})",
            f"{name}[]", (number.name,),
        ),
        "record": (
            f"Maps the {word.name} of {said} to their {number.name}.",
            f"Object.fromEntries({filtered}.map(({one}) => [{one}.{word.name}, {one}.{number.name}]))",
            "Record<string, number>", (word.name, number.name),
        ),
        "flat": (
            f"Returns all {listed.name} of {said}.", f"{filtered}.flatMap(({one}) => {one}.{listed.name})",
            "string[]", (listed.name,),
        ),
        "find": (
            f"Finds the first of {said}.", f"{entity.plural}.find(({one}) => {test_code})", f"{name} | undefined", (),
        ),
        "some": (f"Tells whether there are any of {said}.", f"{entity.plural}.some(({one}) => {test_code})", "boolean", ()),
        "index": (
            f"Returns the position of the first of {said}.", f"{entity.plural}.findIndex(({one}) => {test_code})", "number", (),
        ),
    }  # fmt: skip


ENDS = (
    "filter", "map", "count", "sum", "join", "slice", "unique", "max", "sort", "record", "flat", "find", "some", "index",
)  # fmt: skip
