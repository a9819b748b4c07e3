"""The interface of scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """`reason` says why an answer is wrong; it is empty for a right one."""

    correct: bool
    reason: str = ""


RIGHT = Verdict(True)


class Scorer(Protocol):
    """Lives inside the sandbox. `row` is a line of the test set, `text` what the model wrote, whole."""

    def extract(self, text: str) -> str:
        """The answer in the text."""
        ...

    def judge(self, row: Row, answer: str) -> Verdict:
        """Whether that answer is right."""
        ...


def wrong(reason: str) -> Verdict:
    return Verdict(False, " ".join(reason.split())[:300])
