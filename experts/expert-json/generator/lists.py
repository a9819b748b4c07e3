"""From a list of objects to a shorter list, to groups, counts and sums."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import plural, quoted

from .reshape import asked
from .task import Task
from .values import whole
from .wording import mentioned, mentions, phrase
from .worlds import Field, World, keys_for, words_of

Rows = list[dict[str, Any]]
NUMBERS = ("integer", "number")


def _rows(
    world: World, draw: Draw, fields: list[Field], low: int = 2, high: int = 4
) -> tuple[dict[Field, str], Rows]:
    keys = keys_for(fields, draw)
    rows = [world.record(draw, fields) for _ in range(draw.between(low, high))]
    return keys, [{keys[field]: value for field, value in row.items()} for row in rows]


def _few(world: World, draw: Draw) -> Field | None:
    """A field with few different words, for groups and filters."""
    found = [field for field in world.fields if "|" in field.kind and field.type == "string"]
    return draw.one(found) if found else None


def _mixed(world: World, draw: Draw, first: Field, others: int) -> list[Field]:
    rest = [field for field in world.fields if field != first and field.type != "array"]
    return draw.shuffled([first, *draw.some(rest, others)])


def _name(world: World) -> Field:
    """The first text: what a record is called."""
    return next(field for field in world.fields if field.type == "string")


def plural_of(key: str, draw: Draw) -> str:
    words = words_of(key)
    if words.endswith(("s", "ed", "by", "to", "at", "on", "in", "of")) or re.search(
        r"\d$|_(kg|cm|km|ms|gb|mb|ml|m2|m3|ha|mw|min)$", key
    ):
        return f"{key} values"
    return draw.weighted((plural(words), plural(key), f"{key} values", f'"{key}" values'), (5, 2, 1.5, 1))


def in_envelope(rows: Rows, draw: Draw) -> Any:
    """The list as an API returns it, now and then inside an object."""
    if not draw.chance(0.2):
        return rows
    around = draw.one(("items", "results", "data", "records"))
    return {around: rows} if draw.chance(0.6) else {"page": 1, around: rows}


def pluck(world: World, draw: Draw) -> Task | None:
    fields = world.some(draw, draw.between(2, 3), ("string", "integer", "number"))
    keys, rows = _rows(world, draw, fields)
    key = keys[draw.one(fields)]
    question = asked(
        "pluck", world, draw, in_envelope(rows, draw), key=mentioned(key, draw), keys=plural_of(key, draw)
    )
    return Task(question, [row[key] for row in rows], 1, ("list-pluck",))


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda left, right: left > right,
    "lt": lambda left, right: left < right,
    "ge": lambda left, right: left >= right,
    "le": lambda left, right: left <= right,
}


def _condition(key: str, values: list[Any], draw: Draw) -> tuple[str, Callable[[Any], bool]] | None:
    """Words for a condition that some values meet and others do not."""
    wanted = draw.one(values)
    said = mentioned(key, draw)
    if isinstance(wanted, bool):
        return phrase("eq", draw, key=said, value=str(wanted).lower()), lambda value: value is wanted
    if isinstance(wanted, str):
        return phrase("eq", draw, key=said, value=quoted(wanted, draw)), lambda value: value == wanted
    form = draw.one(tuple(TESTS))
    bound = whole(round(wanted + (0 if form in ("ge", "le") else draw.one((-1, 1))), 1))
    if bound >= 30 and isinstance(wanted, int) and form in ("gt", "lt"):
        bound = bound // 10 * 10
    return phrase(form, draw, key=said, value=str(bound)), lambda value: TESTS[form](value, bound)


def _divided(world: World, draw: Draw, types: tuple[str, ...]) -> tuple[str, Rows, Rows] | None:
    chosen = _few(world, draw) if types == ("string",) else next(iter(world.some(draw, 1, types)), None)
    if chosen is None:
        return None
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, 1), 3, 4)
    condition = _condition(keys[chosen], [row[keys[chosen]] for row in rows], draw)
    if condition is None:
        return None
    kept = [row for row in rows if condition[1](row[keys[chosen]])]
    return (condition[0], rows, kept) if 0 < len(kept) < len(rows) else None


def _filtered(world: World, draw: Draw, types: tuple[str, ...], level: int, tag: str) -> Task | None:
    found = _divided(world, draw, types)
    if found is None:
        return None
    condition, rows, kept = found
    return Task(asked("filter", world, draw, rows, condition=condition), kept, level, (tag,))


def filter_word(world: World, draw: Draw) -> Task | None:
    return _filtered(world, draw, ("string",), 1, "list-filter")


def filter_flag(world: World, draw: Draw) -> Task | None:
    return _filtered(world, draw, ("boolean",), 1, "list-flag")


def filter_number(world: World, draw: Draw) -> Task | None:
    return _filtered(world, draw, NUMBERS, 2, "list-compare")


def ordered(world: World, draw: Draw) -> Task | None:
    chosen = next(iter(world.some(draw, 1, NUMBERS)), None)
    if chosen is None:
        return None
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, 1), 3, 3)
    key, down = keys[chosen], draw.chance(0.5)
    answer = sorted(rows, key=lambda row: row[key], reverse=down)
    if len({row[key] for row in rows}) < len(rows) or answer == rows:
        return None
    if draw.chance(0.3):
        count = draw.between(1, 2)
        question = asked("top", world, draw, rows, key=mentioned(key, draw), count=str(count))
        best = sorted(rows, key=lambda row: row[key], reverse=True)[:count]
        return Task(question, best, 3, ("list-top",)) if count > 1 else None
    direction = phrase("down" if down else "up", draw)
    return Task(
        asked("sort", world, draw, rows, key=mentioned(key, draw), direction=direction),
        answer,
        3,
        ("list-sort",),
    )


def ends(world: World, draw: Draw) -> Task | None:
    _, rows = _rows(world, draw, world.some(draw, 2, ("string", "integer", "number")), 3, 4)
    count = 2
    intent = draw.one(("first", "last"))
    answer = rows[:count] if intent == "first" else rows[-count:]
    return Task(
        asked(intent, world, draw, rows, count=draw.one((str(count), "two"))), answer, 1, ("list-ends",)
    )


def index(world: World, draw: Draw) -> Task | None:
    chosen = _name(world)
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, 1), 2, 3)
    key = keys[chosen]
    answer = {row[key]: {name: value for name, value in row.items() if name != key} for row in rows}
    if len(answer) < len(rows):
        return None
    other = next(name for name in rows[0] if name != key)
    if draw.chance(0.5):
        question = asked("unpairs", world, draw, rows, key=key, value=other)
        return Task(question, {row[key]: row[other] for row in rows}, 2, ("list-lookup",))
    return Task(asked("index", world, draw, rows, key=key), answer, 3, ("list-index",))


def group(world: World, draw: Draw) -> Task | None:
    chosen = _few(world, draw)
    if chosen is None:
        return None
    others = [field for field in world.some(draw, 2, ("string", "integer")) if field != chosen][:1]
    keys, rows = _rows(world, draw, draw.shuffled([chosen, *others]), 3, 4)
    key, other = keys[chosen], keys[others[0]]
    answer: dict[str, list[Any]] = {}
    for row in rows:
        answer.setdefault(row[key], []).append(row[other])
    if len(answer) == len(rows):
        return None
    hint = phrase("groupkeep", draw, other=plural_of(other, draw))
    question = asked("group", world, draw, rows, key=f"{key}, {hint}")
    return Task(question, answer, 4, ("list-group",))


def _shape(draw: Draw, name: str) -> str:
    return draw.one((f'{{"{name}": ...}}', f'{{"{name}": n}}', f'{{"{name}": number}}', f'{{"{name}": 0}}'))


def count(world: World, draw: Draw) -> Task | None:
    name = draw.one(("count", "total", "number", "n"))
    if draw.chance(0.5):
        _, rows = _rows(world, draw, world.some(draw, 2, ("string", "integer")), 2, 5)
        return Task(
            asked("count", world, draw, in_envelope(rows, draw), shape=_shape(draw, name)),
            {name: len(rows)},
            1,
            ("list-count",),
        )
    found = _divided(world, draw, draw.one((("string",), ("boolean",))))
    if found is None:
        return None
    condition, rows, kept = found
    question = asked(
        "countif", world, draw, in_envelope(rows, draw), shape=_shape(draw, name), condition=condition
    )
    return Task(question, {name: len(kept)}, 2, ("list-count-if",))


def count_by(world: World, draw: Draw) -> Task | None:
    chosen = _few(world, draw)
    if chosen is None:
        return None
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, draw.between(0, 1)), 3, 4)
    values = [row[keys[chosen]] for row in rows]
    answer = {value: values.count(value) for value in dict.fromkeys(values)}
    if len(answer) == len(rows):
        return None
    return Task(
        asked("countby", world, draw, rows, key=mentioned(keys[chosen], draw)), answer, 3, ("list-count-by",)
    )


def aggregate(world: World, draw: Draw) -> Task | None:
    """Sum or average of small numbers."""
    chosen = next(iter(world.some(draw, 1, NUMBERS)), None)
    if chosen is None:
        return None
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, 1), 2, 3)
    values = [row[keys[chosen]] for row in rows]
    if max(values) > 200:
        return None
    form = draw.one(("sum", "sum", "average"))
    total = sum(values)
    result = total if form == "sum" else total / len(values)
    if abs(result * 100 - round(result * 100)) > 1e-6:
        return None
    name = draw.one(("total", "sum", "result") if form == "sum" else ("average", "mean", "avg", "result"))
    question = asked(
        form,
        world,
        draw,
        in_envelope(rows, draw),
        key=mentioned(keys[chosen], draw),
        shape=_shape(draw, name),
    )
    return Task(question, {name: whole(round(result, 2))}, 3 if form == "sum" else 4, (f"list-{form}",))


def extreme(world: World, draw: Draw) -> Task | None:
    chosen = next(iter(world.some(draw, 1, NUMBERS)), None)
    if chosen is None:
        return None
    name = _name(world)
    keys, rows = _rows(world, draw, draw.shuffled([name, chosen]), 3, 4)
    key, high = keys[chosen], draw.chance(0.6)
    found = sorted(rows, key=lambda row: row[key], reverse=high)
    if found[0][key] == found[1][key]:
        return None
    most = "highest" if high else "lowest"
    label = keys[name]
    shape = draw.one((f'{{"{label}": ...}}', f'{{"{label}": "..."}}'))
    question = asked(
        "extreme", world, draw, in_envelope(rows, draw), key=mentioned(key, draw), most=most, shape=shape
    )
    return Task(question, {label: found[0][label]}, 2, ("list-extreme",))


def unique(world: World, draw: Draw) -> Task | None:
    chosen = _few(world, draw)
    if chosen is None:
        return None
    keys, rows = _rows(world, draw, _mixed(world, draw, chosen, draw.between(0, 1)), 3, 5)
    values = [row[keys[chosen]] for row in rows]
    answer = list(dict.fromkeys(values))
    if len(answer) == len(values):
        return None
    if draw.chance(0.4):
        return Task(asked("dedupe", world, draw, values), answer, 1, ("list-dedupe",))
    return Task(
        asked("unique", world, draw, rows, keys=plural_of(keys[chosen], draw)), answer, 2, ("list-unique",)
    )


def each(world: World, draw: Draw) -> Task:
    """Some keys of every object."""
    fields = world.some(draw, 3, ("string", "integer", "number", "boolean"))
    keys, rows = _rows(world, draw, fields, 2, 3)
    names = [keys[field] for field in fields]
    kept = draw.some(names, draw.between(1, 2))
    answer = [{key: value for key, value in row.items() if key in kept} for row in rows]
    gone = [key for key in names if key not in kept]
    intent, said = draw.one((("pickeach", kept), ("dropeach", gone)))
    return Task(asked(intent, world, draw, rows, keys=mentions(said, draw)), answer, 2, (f"list-{intent}",))


def columns(world: World, draw: Draw) -> Task:
    _, rows = _rows(world, draw, world.some(draw, 2, ("string", "integer", "number")), 2, 3)
    table = {key: [row[key] for row in rows] for key in rows[0]}
    if draw.chance(0.5):
        return Task(asked("rows", world, draw, table), rows, 3, ("list-rows",))
    return Task(asked("columns", world, draw, rows), table, 3, ("list-columns",))
