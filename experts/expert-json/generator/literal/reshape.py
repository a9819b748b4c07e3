"""From one JSON to another."""

from __future__ import annotations

from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, keys_said
from .task import Task, compact


def _record(entity: Entity, draw: Draw, low: int, high: int) -> dict[str, Any]:
    return entity.record(draw, entity.some(draw, draw.between(low, high)))


def pick(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 3, 4)
    kept = draw.some(list(record), draw.between(1, 3))
    answer = {key: value for key, value in record.items() if key in kept}
    return Task(f"Keep only {keys_said(list(answer))}: {compact(record)}", answer, 1, ("reshape-pick",))


def drop(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 3, 4)
    gone = draw.some(list(record), draw.between(1, 2))
    answer = {key: value for key, value in record.items() if key not in gone}
    return Task(f"Remove {keys_said(gone)}: {compact(record)}", answer, 1, ("reshape-drop",))


def rename(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 2, 4)
    old = draw.one(list(record))
    new = f"{draw.one(['new', 'full', 'main', 'old'])}_{old}"
    answer = {new if key == old else key: value for key, value in record.items()}
    return Task(f'Rename "{old}" to "{new}": {compact(record)}', answer, 1, ("reshape-rename",))


def update(entity: Entity, draw: Draw) -> Task:
    facts = entity.some(draw, draw.between(2, 4), lists=False)
    record, fact = entity.record(draw, facts), draw.one(facts)
    value = fact.draw(draw)
    answer = {**record, fact.key: value}
    return Task(f'Set "{fact.key}" to {compact(value)}: {compact(record)}', answer, 1, ("reshape-set",))


def flatten(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 2, 3)
    keys = list(record)
    group = draw.one(["details", "info", "data"])
    nested = {keys[0]: record[keys[0]], group: {key: record[key] for key in keys[1:]}}
    answer = {keys[0]: record[keys[0]], **{f"{group}.{key}": record[key] for key in keys[1:]}}
    return Task(f"Flatten with dots: {compact(nested)}", answer, 2, ("reshape-flatten",))


def nest(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 3, 4)
    group = draw.one(["details", "info", "data", "facts"])
    inner = draw.some(list(record)[1:], 2)
    answer: dict[str, Any] = {key: value for key, value in record.items() if key not in inner}
    answer[group] = {key: value for key, value in record.items() if key in inner}
    return Task(
        f'Move {keys_said(list(answer[group]))} under "{group}": {compact(record)}',
        answer,
        2,
        ("reshape-nest",),
    )


def pairs(entity: Entity, draw: Draw) -> Task:
    record = _record(entity, draw, 1, 3)
    given = [{"key": key, "value": value} for key, value in record.items()]
    if draw.chance(0.5):
        return Task(f"Turn these pairs into an object: {compact(given)}", record, 2, ("reshape-pairs",))
    return Task(f"Turn this object into key and value pairs: {compact(record)}", given, 3, ("reshape-pairs",))


def _several(entity: Entity, draw: Draw, kind: str) -> tuple[list[dict[str, Any]], str] | None:
    """Three or four short records with different names, and a key of theirs of that kind."""
    fitting = {
        "number": [fact for fact in entity.facts if fact.kind[0].isdigit()],
        "flag": [fact for fact in entity.facts if fact.kind == "bool"],
        "word": [fact for fact in entity.facts if "|" in fact.kind and ":" not in fact.kind],
    }[kind]
    fact = draw.one(fitting)
    names = draw.some(entity.names, draw.between(3, 4))
    records = [{entity.subject: name, fact.key: fact.draw(draw)} for name in names]
    return (records, fact.key) if len({compact(record[fact.key]) for record in records}) > 1 else None


def keep_flagged(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, "flag")
    if found is None:
        return None
    records, key = found
    wanted = draw.chance(0.5)
    answer = [record for record in records if record[key] is wanted]
    return Task(
        f'Keep those with "{key}" {compact(wanted)}: {compact(records)}', answer, 3, ("reshape-filter",)
    )


def above(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, "number")
    if found is None:
        return None
    records, key = found
    limit = sorted(record[key] for record in records)[1] + 1
    answer = [record for record in records if record[key] > limit]
    return (
        Task(f'Keep those with "{key}" above {limit}: {compact(records)}', answer, 4, ("reshape-above",))
        if answer
        else None
    )


def ordered(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, "number")
    if found is None or len({record[found[1]] for record in found[0]}) < len(found[0]):
        return None
    records, key = found
    falling = draw.chance(0.5)
    answer = sorted(records, key=lambda record: int(record[key]), reverse=falling)
    if answer == records:
        return None
    way = "highest" if falling else "lowest"
    return Task(f'Sort by "{key}", {way} first: {compact(records)}', answer, 4, ("reshape-sort",))


def index(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, "word")
    if found is None:
        return None
    records, key = found
    answer = {record[entity.subject]: record[key] for record in records}
    return Task(
        f'Map each "{entity.subject}" to its "{key}": {compact(records)}', answer, 2, ("reshape-index",)
    )


def pluck(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, draw.one(["word", "number"]))
    if found is None:
        return None
    records, key = found
    wanted = draw.one([entity.subject, key])
    return Task(
        f'List every "{wanted}": {compact(records)}',
        [record[wanted] for record in records],
        2,
        ("reshape-pluck",),
    )


def group(entity: Entity, draw: Draw) -> Task | None:
    found = _several(entity, draw, "word")
    if found is None:
        return None
    records, key = found
    answer: dict[str, list[str]] = {}
    for record in records:
        answer.setdefault(record[key], []).append(record[entity.subject])
    return Task(
        f'Group the "{entity.subject}" values by "{key}": {compact(records)}', answer, 4, ("reshape-group",)
    )
