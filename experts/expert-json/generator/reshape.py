"""From one object to another."""

from __future__ import annotations

from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import quoted

from .extract import GROUPS
from .task import Task, compact, printed
from .values import draw_value
from .wording import mentioned, mentions, request, series
from .worlds import World, cased, keys_for

SCALARS = ("string", "integer", "number", "boolean")


def record_of(
    world: World, draw: Draw, low: int, high: int, types: tuple[str, ...] = (), case: str = ""
) -> dict[str, Any]:
    fields = world.some(draw, draw.between(low, high), types)
    keys = keys_for(fields, draw, case)
    return {keys[field]: value for field, value in world.record(draw, fields).items()}


def asked(intent: str, world: World, draw: Draw, payload: Any, **slots: str) -> str:
    shown = payload if isinstance(payload, str) else printed(payload, draw)
    return request(intent, draw, shown, noun=world.noun, nouns=world.nouns, **slots)


def value_said(value: Any, draw: Draw) -> str:
    """A value that is to be set: text bare or in quotes, the rest as JSON has it."""
    numeric = isinstance(value, str) and not value[:1].isalpha()
    return quoted(value, draw) if isinstance(value, str) and not numeric else compact(value)


def pick(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 3, 6)
    kept = draw.some(list(record), draw.between(1, min(3, len(record) - 1)))
    answer = {key: value for key, value in record.items() if key in kept}
    return Task(asked("pick", world, draw, record, keys=mentions(kept, draw)), answer, 1, ("reshape-pick",))


def drop(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 3, 6)
    gone = draw.some(list(record), draw.between(1, 2))
    answer = {key: value for key, value in record.items() if key not in gone}
    return Task(asked("drop", world, draw, record, keys=mentions(gone, draw)), answer, 1, ("reshape-drop",))


def rename(world: World, draw: Draw) -> Task | None:
    """One key or two; the new name is another word for it, a shorter one, or one with a word before it."""
    fields = world.some(draw, draw.between(2, 4))
    keys = keys_for(fields, draw, draw.one(("snake", "snake", "camel")))
    record = {keys[field]: value for field, value in world.record(draw, fields).items()}
    new: dict[str, str] = {}
    for field in draw.some(fields, draw.weighted((1, 2), (3, 1))):
        others = [name for name in field.names if name != keys[field]] or [
            f"{draw.one(('new', 'main', 'my'))}_{field.names[0]}"
        ]
        new[keys[field]] = draw.one(others)
    answer = {new.get(key, key): value for key, value in record.items()}
    if len(answer) != len(record):
        return None
    quote = draw.weighted(("{}", '"{}"', "`{}`"), (6, 3, 1))
    joint = draw.weighted(("{} to {}", "{} -> {}", "{} into {}"), (6, 3, 1))
    said = series([joint.format(quote.format(old), quote.format(name)) for old, name in new.items()], draw)
    return Task(
        asked("rename", world, draw, record, renames=said),
        answer,
        1 if len(new) == 1 else 2,
        ("reshape-rename",),
    )


def update(world: World, draw: Draw) -> Task | None:
    fields = world.some(draw, draw.between(2, 4), SCALARS)
    keys = keys_for(fields, draw)
    record = {keys[field]: value for field, value in world.record(draw, fields).items()}
    changed = draw.one(fields)
    old, value = record[keys[changed]], draw_value(changed.kind, draw, world.pools)
    if value == old:
        return None
    question = asked(
        "update",
        world,
        draw,
        record,
        key=mentioned(keys[changed], draw),
        value=value_said(value, draw),
        old=value_said(old, draw),
    )
    return Task(question, {**record, keys[changed]: value}, 1, ("reshape-update",))


def add(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 3, 5, SCALARS)
    key = list(record)[-1]
    value = record[key]
    before = {name: part for name, part in record.items() if name != key}
    said = draw.weighted((key, f'"{key}"'), (3, 1))
    return Task(
        asked("add", world, draw, before, key=said, value=value_said(value, draw)),
        record,
        1,
        ("reshape-add",),
    )


JOINTS = {
    ".": ("dots", "a dot", '"."', "."),
    "_": ("underscores", "an underscore", '"_"', "_"),
    "-": ("hyphens", "a hyphen", '"-"'),
    "/": ("slashes", "a slash", '"/"'),
}


def flatten(world: World, draw: Draw) -> Task | None:
    record = record_of(world, draw, 3, 5)
    keys, group = list(record), draw.one(GROUPS)
    if group in keys:
        return None
    nested = {keys[0]: record[keys[0]], group: {key: record[key] for key in keys[1:]}}
    mark = draw.weighted(list(JOINTS), (5, 4, 1, 1))
    answer = {keys[0]: record[keys[0]], **{f"{group}{mark}{key}": record[key] for key in keys[1:]}}
    return Task(
        asked("flatten", world, draw, nested, joint=draw.one(JOINTS[mark])), answer, 2, ("reshape-flatten",)
    )


def nest(world: World, draw: Draw) -> Task | None:
    record = record_of(world, draw, 3, 5)
    group = draw.one((*GROUPS, "contact", "facts", "spec", "place"))
    inner = draw.some(list(record), 2)
    if group in record:
        return None
    answer: dict[str, Any] = {key: value for key, value in record.items() if key not in inner}
    answer[group] = {key: value for key, value in record.items() if key in inner}
    return Task(
        asked("nest", world, draw, record, keys=mentions(inner, draw), group=group),
        answer,
        2,
        ("reshape-nest",),
    )


def unnest(world: World, draw: Draw) -> Task | None:
    record = record_of(world, draw, 3, 5)
    keys, group = list(record), draw.one((*GROUPS, "attributes", "properties", "payload"))
    if group in keys:
        return None
    nested = {keys[0]: record[keys[0]], group: {key: record[key] for key in keys[1:]}}
    return Task(asked("unnest", world, draw, nested, group=group), record, 2, ("reshape-unnest",))


def deep(world: World, draw: Draw) -> Task | None:
    """Some keys of both levels of a nested object, in a flat one."""
    record = record_of(world, draw, 3, 6)
    keys, group = list(record), draw.one((*GROUPS, "attributes", "item", "payload"))
    if group in keys:
        return None
    cut = draw.between(1, len(keys) - 2)
    nested: dict[str, Any] = {key: record[key] for key in keys[:cut]}
    nested[group] = {key: record[key] for key in keys[cut:]}
    if draw.chance(0.3):
        nested = {"status": "ok", "data": nested} if group != "data" else {"result": nested}
    wanted = draw.shuffled([draw.one(keys[:cut]), *draw.some(keys[cut:], draw.between(1, 2))])
    question = asked("deep", world, draw, nested, keys=mentions(wanted, draw))
    return Task(question, {key: record[key] for key in wanted}, 2, ("reshape-deep",))


def unwrap(world: World, draw: Draw) -> Task:
    """What an API wraps around its answer."""
    record = record_of(world, draw, 2, 3)
    group = draw.one(("data", "result", "payload", "response", "item", "attributes"))
    around: dict[str, Any] = {"status": "ok", "ok": True, "code": 200, "page": 1, "took_ms": 12}
    outer = {key: around[key] for key in draw.some(list(around), draw.between(0, 2))}
    question = asked("unwrap", world, draw, draw_order({**outer, group: record}, draw), group=group)
    return Task(question, record, 1, ("reshape-unwrap",))


def draw_order(value: dict[str, Any], draw: Draw) -> str:
    order = draw.shuffled(list(value))
    return compact({key: value[key] for key in order}).replace(": ", ":").replace(", ", ",")


def nulls(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 3, 6)
    empty = draw.some(list(record), draw.between(1, 2))
    before = {key: None if key in empty else value for key, value in record.items()}
    answer = {key: value for key, value in record.items() if key not in empty}
    return Task(asked("nulls", world, draw, before), answer, 1, ("reshape-nulls",))


CASES = {
    "camel": ("camelCase", "camel case"),
    "snake": ("snake_case", "snake case"),
    "upper": ("upper case", "UPPERCASE", "capitals"),
    "kebab": ("kebab-case",),
}


def recase(world: World, draw: Draw) -> Task | None:
    fields = world.some(draw, draw.between(2, 4))
    names = {
        field: draw.one([name for name in field.names if "_" in name] or list(field.names))
        for field in fields
    }
    source, target = draw.weighted(
        (("snake", "camel"), ("camel", "snake"), ("snake", "upper"), ("snake", "kebab")), (5, 5, 2, 1)
    )
    values = world.record(draw, fields)
    forms = {
        name: {"upper": name.upper(), "kebab": name.replace("_", "-")}.get(target) or cased(name, target)
        for name in names.values()
    }
    before = {cased(name, source): values[field] for field, name in names.items()}
    answer = {forms[name]: values[field] for field, name in names.items()}
    if len(answer) != len(fields) or list(before) == list(answer):
        return None
    return Task(
        asked("recase", world, draw, before, case=draw.one(CASES[target])), answer, 2, ("reshape-recase",)
    )


def numeric(world: World, draw: Draw) -> Task | None:
    """Numbers in quotes become numbers."""
    record = record_of(world, draw, 2, 4, ("string", "integer", "number"))
    numbers = [key for key, value in record.items() if not isinstance(value, str)]
    if not numbers:
        return None
    before = {key: str(value) for key, value in record.items()}
    return Task(
        asked("numeric", world, draw, before, keys=mentions(numbers, draw)), record, 1, ("reshape-numeric",)
    )


def stringify(world: World, draw: Draw) -> Task | None:
    record = record_of(world, draw, 2, 3, ("string", "integer", "number"))
    numbers = [key for key, value in record.items() if not isinstance(value, str)]
    if len(numbers) != 1:
        return None
    answer = {key: str(value) for key, value in record.items()}
    return Task(
        asked("stringify", world, draw, record, keys=mentions(numbers, draw)),
        answer,
        2,
        ("reshape-stringify",),
    )


def pairs(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 2, 3, SCALARS)
    key, value = draw.one((("key", "value"), ("name", "value"), ("k", "v"), ("field", "value")))
    entries = [{key: name, value: part} for name, part in record.items()]
    if draw.chance(0.4):
        return Task(
            asked("unpairs", world, draw, entries, key=key, value=value), record, 3, ("reshape-unpairs",)
        )
    return Task(asked("pairs", world, draw, record, key=key, value=value), entries, 3, ("reshape-pairs",))


def swap(world: World, draw: Draw) -> Task | None:
    record = record_of(world, draw, 2, 4, ("string",))
    answer = {value: key for key, value in record.items()}
    return (
        Task(asked("swap", world, draw, record), answer, 2, ("reshape-swap",))
        if len(answer) == len(record)
        else None
    )


def keys_or_values(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 2, 4, ("string", "integer", "number"))
    if draw.chance(0.5):
        return Task(asked("keysof", world, draw, record), list(record), 1, ("reshape-keys",))
    return Task(asked("valuesof", world, draw, record), list(record.values()), 1, ("reshape-values",))


def merge(world: World, draw: Draw) -> Task:
    record = record_of(world, draw, 3, 5, SCALARS)
    keys = list(record)
    cut = draw.between(1, len(keys) - 1)
    first = {key: record[key] for key in keys[:cut]}
    second = {key: record[key] for key in keys[cut:]}
    payload = draw.one(("{}\n{}", "{} and {}", "{}, {}", "{}\n\n{}")).format(compact(first), compact(second))
    return Task(asked("merge", world, draw, payload), record, 1, ("reshape-merge",))
