"""Draws tasks, checks that none is trivial, and deals them to the splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.turns import in_turn

from ..shape import shape
from . import extract, reshape
from .entities import Entity, entities
from .repair import repairs
from .schema import schemas
from .task import Composition, Task, compact

SYSTEM = "Answer with JSON only."
EXTRACT: list[Composition] = [
    extract.flat,
    extract.subset,
    extract.absent,
    extract.lists,
    extract.nested,
    extract.many,
    extract.renamed,
]
RESHAPE: list[Composition] = [
    reshape.pick,
    reshape.drop,
    reshape.rename,
    reshape.update,
    reshape.flatten,
    reshape.nest,
    reshape.pairs,
    reshape.keep_flagged,
    reshape.above,
    reshape.ordered,
    reshape.index,
    reshape.pluck,
    reshape.group,
]
TURNS = EXTRACT * 2 + RESHAPE + repairs() + schemas()
TRIES = 400
TRAINED = ("messages", "tags", "level")


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    scenes = entities(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, scenes, draw, split)

    return in_turn(TURNS, attempts, f"json/{seed}/{split}", count)


def _attempts(
    composition: Composition, things: list[Entity], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        task = composition(draw.one(things), draw)
        if task is None or _trivial(task) or split_of(shape(task.answer)) != split:
            continue
        row = {
            "messages": conversation(SYSTEM, task.question, compact(task.answer)),
            "tags": ["literal", *task.tags],
            "level": task.level,
            "instances": task.instances,
        }
        yield row if split != "train" else {key: row[key] for key in TRAINED}


def _trivial(task: Task) -> bool:
    """Empty, or already there in the question."""
    return not task.answer or compact(task.answer) in task.question
