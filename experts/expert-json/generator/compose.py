"""JSON written from a description: objects, request bodies, configurations, arrays."""

from __future__ import annotations

import re
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .extract import GROUPS
from .task import Task
from .values import joined
from .wording import phrase, request, series
from .worlds import Field, World, keys_for

PLAIN_VALUE = re.compile(r"[A-Za-z][\w@.+-]*( [A-Za-z][\w.-]*)?")
COLORS = ("red", "green", "blue", "black", "white", "yellow", "orange", "purple", "pink", "grey")
SETS = (
    COLORS,
    ("monday", "tuesday", "wednesday", "thursday", "friday"),
    ("north", "south", "east", "west"),
    ("small", "medium", "large", "extra large"),
    ("apple", "pear", "plum", "cherry", "fig", "lime"),
    ("draft", "review", "final", "archived"),
    ("gold", "silver", "bronze", "copper", "iron"),
    ("dog", "cat", "horse", "goat", "duck", "hen"),
)
HELD_SETS = (
    ("violin", "flute", "harp", "organ", "banjo"),
    ("spring", "summer", "autumn", "winter"),
    ("cotton", "linen", "silk", "wool"),
    ("bread", "butter", "jam", "honey", "tea"),
)


def _said(value: Any, quote: str) -> str:
    """A value in a description; text that is not one or two plain words stands in quotes or after its name."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return (quote if "'" not in value else quote.replace("'", '"')).format(value)
    return str(value)


def facts(record: dict[str, Any], draw: Draw) -> str:
    """`name Ada, age 36 and active true`, in one of many notations."""
    joint = draw.weighted(("{} {}", "{}: {}", "{} = {}", "{}={}", "{} set to {}"), (7, 4, 2, 1, 1))
    quote = draw.weighted(("{}", '"{}"', "'{}'"), (6, 3, 1))
    parts = []
    for key, value in record.items():
        if isinstance(value, list):
            words = joined([str(item) for item in value]) if value else ""
            parts.append(phrase("listkey", draw, key=key, items=words) if value else f"{key} an empty list")
            continue
        plain = not isinstance(value, str) or PLAIN_VALUE.fullmatch(value)
        parts.append(joint.format(key, _said(value, quote if plain or quote != "{}" else '"{}"')))
    semicolons = any(isinstance(value, list) for value in record.values())
    return "; ".join(parts) if semicolons and len(parts) > 1 else series(parts, draw)


def _record(world: World, draw: Draw, low: int, high: int, types: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = world.some(draw, draw.between(low, high), types or ("string", "integer", "number", "boolean"))
    keys = keys_for(fields, draw)
    record = world.record(draw, fields)
    return {key: record[field] for field, key in keys.items()}


def one(world: World, draw: Draw) -> Task:
    record = _record(world, draw, 2, 6)
    if draw.chance(0.08):
        record[draw.one(list(record))] = None
    said = facts({key: "null" if value is None else value for key, value in record.items()}, draw)
    said = re.sub(r"[\"']null[\"']", "null", said)
    return Task(request("compose", draw, noun=world.noun, facts=said), record, 1, ("write-object",))


def config(world: World, draw: Draw) -> Task:
    """Booleans as switches: `ssl on`."""
    record = _record(world, draw, 2, 5)
    yes, no = draw.one((("true", "false"), ("on", "off"), ("enabled", "disabled"), ("true", "false")))
    switched = {key: value for key, value in record.items() if isinstance(value, bool)}
    plain = {key: value for key, value in record.items() if key not in switched}
    said = [f"{key} {yes if value else no}" for key, value in switched.items()]
    said = [*([facts(plain, draw).replace(" and ", ", ")] if plain else []), *said]
    answer = {**plain, **switched}
    return Task(
        request("config", draw, noun=world.noun, facts=series(said, draw)), answer, 1, ("write-config",)
    )


def body(world: World, draw: Draw) -> Task:
    record = _record(world, draw, 2, 5)
    hints, answer = [], record
    if draw.chance(0.3):
        group = draw.one(("data", "payload", "item", "attributes"))
        hints, answer = [phrase("wrap", draw, group=group)], {group: record}
    path = world.nouns.replace(" ", "-")
    asked = request("body", draw, "", hints, noun=world.noun, path=path, facts=facts(record, draw))
    return Task(asked, answer, 2, ("write-body",))


def nested(world: World, draw: Draw) -> Task | None:
    record = _record(world, draw, 3, 5)
    keys, group = list(record), draw.one((*GROUPS, "settings", "contact", "status_info", "limits"))
    if group in keys or len(keys) < 3:
        return None
    outer = draw.between(1, 2) if len(keys) > 3 else 1
    answer: dict[str, Any] = {key: record[key] for key in keys[:outer]}
    inner = {key: record[key] for key in keys[outer:]}
    answer[group] = inner
    said = phrase(
        "holding",
        draw,
        outer=facts({key: record[key] for key in keys[:outer]}, draw),
        group=group,
        inner=facts(inner, draw),
    )
    return Task(request("compose", draw, noun=world.noun, facts=said), answer, 2, ("write-nested",))


def with_list(world: World, draw: Draw) -> Task | None:
    listed = world.some(draw, 1, ("array",))
    if not listed:
        return None
    others = world.some(draw, draw.between(1, 2), ("string", "integer", "boolean"))
    fields = [*others, *listed]
    keys = keys_for(fields, draw)
    drawn = world.record(draw, fields)
    record = {key: drawn[field] for field, key in keys.items()}
    form = draw.weighted(("words", "numbers", "empty"), (6, 3, 1))
    if form != "words":
        last = (
            list(record)[-1]
            if form == "empty"
            else draw.one(("scores", "ids", "sizes", "points", "rooms", "years"))
        )
        record.pop(keys[listed[0]])
        record[last] = [draw.between(1, 99) for _ in range(draw.between(2, 4))] if form == "numbers" else []
    return Task(
        request("compose", draw, noun=world.noun, facts=facts(record, draw)), record, 2, ("write-list",)
    )


def records(world: World, draw: Draw) -> Task:
    """Two or three short objects."""
    fields: list[Field] = world.some(draw, 2, ("string", "integer", "number"))
    keys = keys_for(fields, draw)
    rows = [world.record(draw, fields) for _ in range(draw.between(2, 3))]
    answer = [{key: row[field] for field, key in keys.items()} for row in rows]
    between = draw.one(("; ", " / ", "; "))
    said = between.join(facts(row, draw).replace(" & ", ", ") for row in answer)
    return Task(
        request("records", draw, noun=world.noun, nouns=world.nouns, facts=said),
        answer,
        3,
        ("write-records",),
    )


def array(world: World, draw: Draw) -> Task:
    words = _words(world, draw) if draw.chance(0.75) else [str(draw.between(1, 250)) for _ in range(5)]
    items = draw.some(words, min(len(words), draw.between(3, 5)))
    numbers = items[0].isdigit()
    quote = "{}" if numbers else draw.weighted(("{}", '"{}"', "'{}'"), (6, 1, 1))
    said = series([quote.format(item) for item in items], draw)
    answer = [int(item) for item in items] if numbers else items
    return Task(
        request("numbers-array" if numbers else "array", draw, items=said), answer, 1, ("write-array",)
    )


def _words(world: World, draw: Draw) -> list[str]:
    """The values of one of the world's fields, or an everyday set."""
    training = "Ada" in world.pools["first"]
    own = [
        f.kind.removeprefix("list:").split("|")
        for f in world.fields
        if "|" in f.kind and not f.kind.startswith("bool")
    ]
    fitting = [
        words for words in own if len(words) >= 3 and all(PLAIN_VALUE.fullmatch(word) for word in words)
    ]
    if fitting and draw.chance(0.6):
        return draw.one(fitting)
    return list(draw.one(SETS if training else HELD_SETS))


def numbers(_: World, draw: Draw) -> Task:
    low = draw.between(0, 30)
    high = low + draw.between(2, 7)
    asked = request("range", draw, low=str(low), high=str(high))
    return Task(asked, list(range(low, high + 1)), 1, ("write-range",))
