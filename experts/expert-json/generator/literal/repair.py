"""Broken JSON, and what it was meant to be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity
from .task import Composition, Task, compact

Breaker = Callable[[str, Draw], str]


def _once(pattern: str, new: str, text: str, draw: Draw) -> str:
    """One match, anywhere, replaced."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = draw.one(found)
    return text[: match.start()] + match.expand(new) + text[match.end() :]


BREAKERS: dict[str, Breaker] = {
    "trailing-comma": lambda text, draw: _once(r"(?<=[\w\"\]])([}\]])", r",\1", text, draw),
    "missing-comma": lambda text, draw: _once(r", (?=\")", " ", text, draw),
    "single-quotes": lambda text, draw: text.replace('"', "'"),
    "bare-keys": lambda text, draw: re.sub(r'"(\w+)":', r"\1:", text),
    "missing-end": lambda text, draw: text.rstrip("]}") + text[len(text.rstrip("]}")) : -1],
    "python-words": lambda text, draw: (
        text.replace("true", "True").replace("false", "False").replace("null", "None")
    ),
    "comment": lambda text, draw: _once(
        r", (?=\")", f", /* {draw.one(['new', 'todo', 'check'])} */ ", text, draw
    ),
    "open-quote": lambda text, draw: _once(r'(?<=\w)"(?=[,}:])', "", text, draw),
    "equals-sign": lambda text, draw: text.replace('":', '" ='),
    "semicolons": lambda text, draw: re.sub(r', (?=")', "; ", text),
    "missing-start": lambda text, draw: text[1:],
}


def repairs() -> list[Composition]:
    """A composition for each kind of damage, and one for two kinds at once."""
    return [_one(name) for name in BREAKERS] + [_two]


def _one(name: str) -> Composition:
    def composition(entity: Entity, draw: Draw) -> Task | None:
        return _broken(entity, draw, [name], 1 if name in {"trailing-comma", "single-quotes"} else 2)

    composition.__name__ = name
    return composition


def _two(entity: Entity, draw: Draw) -> Task | None:
    task = _broken(
        entity,
        draw,
        draw.some(["trailing-comma", "bare-keys", "python-words", "open-quote", "comment"], 2),
        3,
    )
    return Task(task.question, task.answer, task.level, ("repair-two", *task.tags)) if task else None


def _broken(entity: Entity, draw: Draw, names: list[str], level: int) -> Task | None:
    meant = _document(entity, draw)
    text = compact(meant)
    for name in names:
        new = BREAKERS[name](text, draw)
        if new == text:
            return None
        text = new
    if _parses(text):
        return None
    return Task(f"Repair this JSON: {text}", meant, level, tuple(f"repair-{name}" for name in names))


def _document(entity: Entity, draw: Draw) -> Any:
    facts = entity.some(draw, draw.between(2, 4))
    record = entity.record(draw, facts)
    if draw.chance(0.3):
        key = draw.one([fact.key for fact in facts])
        record[key] = None
    if draw.chance(0.3):
        return {entity.noun: record}
    return record


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
