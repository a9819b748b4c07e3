"""Right when the answer is the reference, white space at its ends and in its runs aside."""

from __future__ import annotations

from expert_worker.evaluate.answer import is_fenced, unfenced, without_thoughts
from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, wrong


class ExactScorer:
    def extract(self, text: str) -> str:
        return text

    def judge(self, row: Row, answer: str) -> Verdict:
        reference = without_thoughts(str(row["completion"]))
        # Of a reference in a code fence, the fence says nothing.
        wanted = _plain(unfenced(reference) if is_fenced(reference) else reference)
        found = _plain(unfenced(answer))
        if wanted in (found, _plain(without_thoughts(answer))):
            return RIGHT
        return wrong(f"{found[:80]!r} is not {wanted[:80]!r}")

    def result_key(self, row: Row, answer: str) -> object:
        """Its text without a fence."""
        del row
        return _plain(unfenced(answer)) or None


def _plain(text: str) -> str:
    return " ".join(text.split())
