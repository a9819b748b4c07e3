"""What a scorer is asked and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """`reason` tells a reader why an answer is wrong; it is empty for a right one."""

    correct: bool
    reason: str = ""


RIGHT = Verdict(True)


class Scorer(Protocol):
    """Judges one answer at a time inside the sandbox; `row` is a line of the test set."""

    def judge(self, row: Row, answer: str) -> Verdict: ...


def wrong(reason: str) -> Verdict:
    return Verdict(False, " ".join(reason.split())[:300])
