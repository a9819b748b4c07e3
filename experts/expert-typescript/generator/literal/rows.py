"""Draws tasks and deals them to the splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.turns import in_turn

from ..skeleton import skeleton
from .code import REFACTORINGS, implementations
from .entities import Entity, entities
from .task import Composition
from .types import TYPES

SYSTEM = "Answer with TypeScript code only."
TURNS: list[Composition] = [*TYPES, *REFACTORINGS, *implementations()]
# Fewer than of the other rows: their forms decide which of these rows are in which split.
_WORDS = """
interface type extends readonly enum function const return async await if else typeof is any void
number string boolean null undefined Promise Record Pick Omit Partial Required Readonly Array Object
Math Set T new fetch json console log filter map reduce find findIndex some slice sort join flatMap
includes startsWith endsWith length max fromEntries sum a b response
"""
KEYWORDS = frozenset(_WORDS.split())
TRIES = 400
TRAINED = ("messages", "tags", "level")


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    scenes = entities(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, scenes, draw, split)

    return in_turn(TURNS, attempts, f"typescript/{seed}/{split}", count)


def _attempts(
    composition: Composition, kinds: list[Entity], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        task = composition(draw.one(kinds), draw)
        if split_of(skeleton(task.answer, KEYWORDS)) != split:
            continue
        row = {
            "messages": conversation(SYSTEM, task.question, task.answer),
            "tags": list(dict.fromkeys(["literal", *task.tags])),
            "level": task.level,
            "accepted": list(task.also),
            "context": task.context,
        }
        yield row if split != "train" else {key: row[key] for key in TRAINED}
