"""New rows turn by turn, until there are enough or the schema has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any

from expert_worker.evaluate.authoring.rows import within_characters

# Characters of a row, so that it fits into 512 tokens.
LONGEST = 1200
FITS = within_characters(LONGEST)
# Of each turn.
TRIES = 30
# So many turns in a row without a new question mean that the schema has no more.
FRUITLESS = 150

Row = dict[str, Any]


def new_rows(count: int, seen: Sized, made: Callable[[int], Row | None]) -> Iterator[Row]:
    """What `made` makes of each turn's number; it adds to `seen` what it has asked."""
    fruitless, turn = 0, 0
    while len(seen) < count and fruitless < FRUITLESS:
        row = made(turn)
        turn += 1
        fruitless = 0 if row else fruitless + 1
        if row is not None:
            yield row
