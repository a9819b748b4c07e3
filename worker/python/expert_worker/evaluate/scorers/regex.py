"""Right when the whole answer matches the row's `pattern`, or its completion read as one.

Patterns come from the test set, not from the model; one that takes for ever is ended by the sandbox's clock.
"""

from __future__ import annotations

import re

from expert_worker.evaluate.answer import unfenced
from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, wrong


class RegexScorer:
    def extract(self, text: str) -> str:
        return unfenced(text)

    def judge(self, row: Row, answer: str) -> Verdict:
        pattern = str(row.get("pattern", row["completion"]))
        if re.fullmatch(pattern, answer, re.DOTALL):
            return RIGHT
        return wrong(f"{answer[:80]!r} does not match {pattern[:80]!r}")
