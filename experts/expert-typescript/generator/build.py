"""Draws tasks and deals them to the splits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import answered, conversation, within_characters
from expert_worker.evaluate.authoring.split import split_of
from expert_worker.evaluate.authoring.turns import in_turn
from expert_worker.evaluate.authoring.written import among, written_rows

from .examples import EXAMPLES
from .kinds import Kind, UnfitError, kinds
from .lists import LISTS
from .literal.rows import rows as literal_rows
from .objects import OBJECTS
from .rewrites import REWRITES
from .shapes import SHAPES
from .skeleton import skeleton
from .snippets import SNIPPETS
from .summaries import SUMMARIES
from .task import Composition, Task
from .unions import UNIONS
from .utility import UTILITY

__all__ = ["by_name", "rows", "skeleton"]
SYSTEM = "Answer with TypeScript code only."
WEIGHTED: list[tuple[Composition, int]] = [
    *SHAPES, *EXAMPLES, *UNIONS, *UTILITY, *SNIPPETS, *LISTS, *SUMMARIES, *OBJECTS, *REWRITES,
]  # fmt: skip
TRIES = 60
# How many of the training rows are written by hand.
WRITTEN = Fraction(1, 6)
# How many name columns, keys and types literally; WRITTEN is the share of the others.
LITERAL = Fraction(1, 5)
FOLDER = Path(__file__).parent / "written"
# Characters of a written task and its answer.
LONGEST = 900
TRAINED = ("messages", "tags", "level")
# Their answers have so few skeletons that each must be trained: names and kinds alone divide the splits.
_FEW_SKELETONS = """
union union-of-types enum enum-to-union record tuple from-const partial required readonly pick omit
combined-utility intersection looked-up generic-interface function-type index-signature to-arrow
to-function to-await to-template to-optional to-destructuring fetch class from-loop type-guard
extends interface-to-type type-to-interface map find filter some every count sum average maximum
sort top unique flat-map index immutable-update predicate format copy to-ternary
"""
BY_NAME = frozenset(_FEW_SKELETONS.split())
# Well-known functions and generic types: each belongs to one split, most of them to training.
KNOWN_SHARES = {"train": 80, "validation": 8, "test": 12}


def in_split(task: Task, split: str) -> bool:
    """By the well-known function, by names alone, or by the skeleton of the answer."""
    if task.known:
        return split_of(skeleton(task.known), KNOWN_SHARES) == split
    return bool(BY_NAME.intersection(task.tags)) or split_of(skeleton(task.answer)) == split


def by_name(row: dict[str, Any]) -> bool:
    """Whether a row's answer may share its skeleton with rows of other splits."""
    return bool(BY_NAME.intersection(row["tags"]))


def turns() -> list[Composition]:
    """Each composition as often as its weight, apart from one another: a short run sees all of them."""
    total = sum(weight for _, weight in WEIGHTED)
    placed = [
        ((turn + 0.5) * total / weight, place, composition)
        for place, (composition, weight) in enumerate(WEIGHTED)
        for turn in range(weight)
    ]
    return [composition for _, _, composition in sorted(placed, key=lambda one: one[:2])]


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    found = kinds(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, found, draw, split)

    generated = in_turn(turns(), attempts, f"typescript/{seed}/{split}", count)
    if split != "train":
        return generated
    fits = within_characters(LONGEST)
    written = written_rows(FOLDER, SYSTEM, fits, f"typescript/{seed}", wanted=_is_trained, level=_level)
    everyday = among(generated, written, WRITTEN, count)
    literal = answered(literal_rows("train", count, seed), _is_trained)
    return among(everyday, literal, LITERAL, count)


def _is_trained(answer: str) -> bool:
    """Answers of one skeleton belong to one split, those of well-known functions too."""
    form = skeleton(answer)
    return split_of(form) == split_of(form, KNOWN_SHARES) == "train"


def _level(answer: str) -> int:
    """By its length: a body of one line, of a few, of many."""
    lines = answer.count("\n") + 1
    return 1 if lines <= 3 else 2 if lines <= 7 else 3


def _attempts(
    composition: Composition, found: tuple[Kind, ...], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        try:
            task = composition(draw.one(found), draw)
        except UnfitError:
            continue
        if not in_split(task, split):
            continue
        row = {
            "messages": conversation(SYSTEM, task.question, task.answer),
            "tags": list(dict.fromkeys(task.tags)),
            "level": task.level,
            "accepted": list(task.also),
            "context": task.context,
        }
        yield row if split != "train" else {key: row[key] for key in TRAINED}
