"""Right when the answer contains the reference, whatever the case and white space.

With `contains`, a list in the row, the score is the share of its texts that the answer contains.
"""

from __future__ import annotations

from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, shortened, wrong


class ContainsScorer:
    def extract(self, text: str) -> str:
        return _plain(text)

    def judge(self, row: Row, answer: str) -> Verdict:
        listed = row.get("contains", row["completion"])
        wanted = [str(text) for text in listed] if isinstance(listed, list | tuple) else [str(listed)]
        missing = [text for text in wanted if _plain(text) not in answer]
        if not missing:
            return RIGHT
        reason = "does not contain " + ", ".join(repr(text[:80]) for text in missing[:3])
        if len(missing) == len(wanted):
            return wrong(reason)
        return Verdict(1 - len(missing) / len(wanted), shortened(reason))

    def judge_reference(self, row: Row) -> Verdict:
        """A row with `contains` needs no reference."""
        return RIGHT if "contains" in row else self.judge(row, self.extract(str(row["completion"])))


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
