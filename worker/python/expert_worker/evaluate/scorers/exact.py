"""Right when the answer is the reference, white space at its ends and in its runs aside."""

from __future__ import annotations

from expert_worker.evaluate.answer import unfenced
from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, wrong


class ExactScorer:
    def extract(self, text: str) -> str:
        return " ".join(unfenced(text).split())

    def judge(self, row: Row, answer: str) -> Verdict:
        wanted = " ".join(str(row["completion"]).split())
        return RIGHT if answer == wanted else wrong(f"{answer[:80]!r} is not {wanted[:80]!r}")
