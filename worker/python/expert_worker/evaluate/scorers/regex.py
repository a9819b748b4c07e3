"""Right when the whole answer matches the row's `pattern`, or its completion read as one, with or without
the code fence around it.

Patterns come from the test set, not from the model; one that takes for ever is ended by the sandbox's clock.
"""

from __future__ import annotations

import re

from expert_worker.evaluate.answer import unfenced, without_thoughts
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, wrong


class RegexScorer:
    def extract(self, text: str) -> str:
        return text.strip()

    def judge(self, row: Row, answer: str) -> Verdict:
        pattern, inside = _pattern(row), unfenced(answer)
        if pattern.fullmatch(inside) or pattern.fullmatch(answer):
            return RIGHT
        return wrong(f"{inside[:80]!r} does not match {pattern.pattern[:80]!r}")

    def judge_reference(self, row: Row) -> Verdict:
        """A pattern need not match itself, and a row with a pattern needs no reference."""
        _pattern(row)
        return RIGHT

    def result_key(self, row: Row, answer: str) -> object:
        """Its text without a fence."""
        del row
        return unfenced(answer) or None


def _of_reference(text: str) -> str:
    """Without thoughts. Spaces at the ends are a part of it."""
    answer = without_thoughts(text)
    return text if answer == text.strip() else answer


def _pattern(row: Row) -> re.Pattern[str]:
    given = row.get("pattern")
    pattern = _of_reference(str(row["completion"])) if given is None else str(given)
    if not pattern:
        raise BadRow("its regular expression is empty")
    try:
        return re.compile(pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadRow(f"{pattern[:80]!r} is not a regular expression: {error}") from None
