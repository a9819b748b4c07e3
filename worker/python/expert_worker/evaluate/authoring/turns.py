"""The rows of a split: compositions take turns until there are enough of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from .draw import Draw
from .rows import question_of

Row = dict[str, Any]
Composition = TypeVar("Composition")


def in_turn(
    compositions: Sequence[Composition],
    attempts: Callable[[Composition, Draw], Iterable[Row]],
    name: str,
    count: int,
    asked: Callable[[Row], Hashable] = question_of,
) -> Iterator[Row]:
    """The first attempt of each turn whose question is new; the same rows for the same name."""
    seen: set[Hashable] = set()
    turn = 0
    while len(seen) < count:
        composition = compositions[turn % len(compositions)]
        draw = Draw(f"{name}/{turn}")
        turn += 1
        row = next((row for row in attempts(composition, draw) if asked(row) not in seen), None)
        if row is not None:
            seen.add(asked(row))
            yield row
