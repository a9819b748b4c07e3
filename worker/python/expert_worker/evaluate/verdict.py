"""The interface of scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Row = Mapping[str, Any]
_LONGEST_REASON = 300
# Sums such as .2 + .7 + .1 miss 0 or 1 by far less.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """`reason` says why an answer does not have the full score."""

    # From 0 to 1; true and false are 1 and 0.
    score: float
    reason: str = ""
    # The scorer failed on the answer or gave no verdict: it counts as 0, and is counted.
    failed: bool = False
    # The same for answers with the same result, where that was asked for and there is one.
    result_key: str | None = None
    # The scorer has a parser, which refuses the answer.
    unparsed: bool = False

    @property
    def correct(self) -> bool:
        return self.score >= 1


RIGHT = Verdict(1.0)


class Scorer(Protocol):
    """Lives inside the sandbox. `row` is a line of the test set, `text` what the model wrote, whole."""

    def extract(self, text: str) -> str:
        """The answer in the text."""
        ...

    def judge(self, row: Row, answer: str) -> Verdict:
        """How good that answer is."""
        ...


@runtime_checkable
class ExecutingScorer(Scorer, Protocol):
    """One that knows what an answer returns. For the others, answers with one text are one."""

    def result_key(self, row: Row, answer: str) -> object:
        """Something whose `repr` is the same for answers that return the same; None where an answer fails.
        The reference has no part in it.
        """
        ...


@runtime_checkable
class ReferenceScorer(Scorer, Protocol):
    """One that judges the reference answers of rows in another way than other answers."""

    def judge_reference(self, row: Row) -> Verdict:
        """Right where an answer to the row can be right."""
        ...


class BadRow(Exception):
    """The scorer cannot use a row, in words for the user: a mistake of the row, not of an answer."""


class ScorerError(Exception):
    """A scorer that cannot be used, in words for the user."""


def check_fields(row: Row, *names: str) -> None:
    missing = [name for name in names if row.get(name) is None]
    if missing:
        raise BadRow(f"it has no field {' and no field '.join(missing)}")


def wrong(reason: str) -> Verdict:
    return Verdict(0.0, shortened(reason))


def unparsed(reason: str) -> Verdict:
    """Wrong before its meaning is looked at: constraining answers by a grammar prevents this."""
    return Verdict(0.0, shortened(reason), unparsed=True)


def failed(reason: str) -> Verdict:
    return Verdict(0.0, shortened(reason), failed=True)


def shortened(reason: str) -> str:
    return " ".join(reason.split())[:_LONGEST_REASON]


def is_score(value: float) -> bool:
    """Not for NaN. What rounding puts outside 0 to 1 is a score."""
    return -_ROUNDING <= value <= 1 + _ROUNDING


def score_of(value: float) -> float:
    """Exactly 0 or 1 where only rounding is between."""
    whole = round(value)
    return float(whole if abs(value - whole) <= _ROUNDING else value)
