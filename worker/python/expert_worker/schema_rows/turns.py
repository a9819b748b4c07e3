"""New rows turn by turn, until there are enough or the schema has no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sized
from typing import Any

from expert_worker.errors import BadInput
from expert_worker.evaluate.authoring.rows import within_characters

# Characters of a row, so that most fit into 512 tokens.
LONGEST = 1200
FITS = within_characters(LONGEST)
# Of them, those of a JSON object.
LONGEST_ANSWER = 400
# Of each turn.
TRIES = 30
# So many turns in a row without a new question mean that the schema has no more.
FRUITLESS = 150
FEWEST = 20
# Why rows are dropped.
AGAIN = "asked before"
TOO_LONG = f"longer than {LONGEST:,} characters"
LONG_ANSWER = f"with an answer longer than {LONGEST_ANSWER} characters"
INVALID = "not valid by the schema"
_MORE = "Name a schema with more of names, numbers, dates and states."
_HINTS = {
    TOO_LONG: f"Keep fewer or shorter names: a row has at most {LONGEST:,} characters.",
    LONG_ANSWER: "Name a part of the schema, or one with fewer keys: an answer has at most "
    f"{LONGEST_ANSWER} characters.",
    INVALID: "Name a schema whose keys depend less on each other, or give `examples`.",
}

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


def check_size(count: int, split: str, dropped: Counter[str]) -> None:
    if count >= FEWEST:
        return
    reasons = [(reason, number) for reason, number in dropped.most_common() if number]
    listed = ", ".join(f"{number:,} {reason}" for reason, number in reasons)
    raise BadInput(
        f"only {count} different {split} rows can be made of this schema"
        + (f"; dropped: {listed}" if listed else ""),
        code="small-schema",
        hint=_HINTS.get(reasons[0][0], _MORE) if reasons else _MORE,
    )
