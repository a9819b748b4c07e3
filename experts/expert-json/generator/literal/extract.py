"""From text to JSON."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, keys_said, sentence
from .task import Task


def flat(entity: Entity, draw: Draw) -> Task:
    """Every fact of the text, in the order of the keys that are asked for."""
    facts = entity.some(draw, draw.between(2, 4), lists=False)
    record = entity.record(draw, facts)
    text = sentence(entity, record, draw.shuffled(facts))
    return Task(f"Extract {keys_said(list(record))}: {text}", record, 1, ("extract-flat",))


def subset(entity: Entity, draw: Draw) -> Task:
    """Fewer keys than the text has facts."""
    facts = entity.some(draw, 4, lists=False)
    record = entity.record(draw, facts)
    wanted = draw.some(list(record), draw.between(1, 3))
    answer = {key: record[key] for key in wanted}
    return Task(
        f"Extract {keys_said(wanted)}: {sentence(entity, record, facts)}", answer, 1, ("extract-subset",)
    )


def absent(entity: Entity, draw: Draw) -> Task:
    """A key that the text says nothing about is null."""
    facts = entity.some(draw, draw.between(3, 4), lists=False)
    record = entity.record(draw, facts)
    hidden = draw.one(facts)
    text = sentence(entity, record, [fact for fact in facts if fact is not hidden])
    answer = {key: None if key == hidden.key else value for key, value in record.items()}
    return Task(f"Extract {keys_said(list(record))}, null if not given: {text}", answer, 2, ("extract-null",))


def lists(entity: Entity, draw: Draw) -> Task:
    listed = next(fact for fact in entity.facts if fact.kind.startswith("list:"))
    facts = draw.shuffled([listed, *entity.some(draw, draw.between(1, 3), lists=False)])
    record = entity.record(draw, facts)
    text = sentence(entity, record, draw.shuffled(facts))
    return Task(f"Extract {keys_said(list(record))}: {text}", record, 2, ("extract-list",))


def nested(entity: Entity, draw: Draw) -> Task:
    facts = entity.some(draw, draw.between(3, 4), lists=False)
    record = entity.record(draw, facts)
    group = draw.one(["details", "info", "data", "facts"])
    inner = draw.some([fact.key for fact in facts], draw.between(2, len(facts) - 1))
    outer = {key: value for key, value in record.items() if key not in inner}
    answer = {**outer, group: {key: record[key] for key in inner}}
    question = f'Extract {keys_said(list(outer))}, and {keys_said(inner)} under "{group}": {sentence(entity, record, facts)}'
    return Task(question, answer, 2, ("extract-nested",))


def many(entity: Entity, draw: Draw) -> Task:
    facts = entity.some(draw, draw.between(1, 2), lists=False)
    records = [entity.record(draw, facts) for _ in range(draw.between(2, 3))]
    text = " ".join(sentence(entity, record, facts) for record in records)
    return Task(
        f"Extract {keys_said(list(records[0]))} of each {entity.noun}: {text}", records, 3, ("extract-many",)
    )


def renamed(entity: Entity, draw: Draw) -> Task:
    facts = entity.some(draw, draw.between(2, 3), lists=False)
    record = entity.record(draw, facts)
    keys = {key: f"{entity.noun}_{key}" for key in record}
    wish = draw.one([f'each key prefixed with "{entity.noun}_"', "all keys in capitals"])
    new = keys if "prefixed" in wish else {key: key.upper() for key in record}
    answer = {new[key]: value for key, value in record.items()}
    return Task(
        f"Extract {keys_said(list(record))}, {wish}: {sentence(entity, record, facts)}",
        answer,
        3,
        ("extract-renamed",),
    )
