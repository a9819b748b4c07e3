"""Right when the answer contains the reference, whatever the case and white space.

With `contains`, a text or a list in the row, the score is the share of its texts that the answer contains.
"""

from __future__ import annotations

from expert_worker.evaluate.answer import without_thoughts
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, shortened, wrong


class ContainsScorer:
    def extract(self, text: str) -> str:
        return _plain(without_thoughts(text))

    def judge(self, row: Row, answer: str) -> Verdict:
        wanted = _wanted(row)
        missing = [text for text in wanted if _plain(text) not in answer]
        if not missing:
            return RIGHT
        reason = "does not contain " + ", ".join(repr(text[:80]) for text in missing[:3])
        if len(missing) == len(wanted):
            return wrong(reason)
        return Verdict(1 - len(missing) / len(wanted), shortened(reason))

    def judge_reference(self, row: Row) -> Verdict:
        """A row with `contains` needs no reference."""
        _wanted(row)
        return (
            RIGHT
            if row.get("contains") is not None
            else self.judge(row, self.extract(str(row["completion"])))
        )


def _wanted(row: Row) -> list[str]:
    """Every answer contains an empty text, and all of an empty list."""
    listed = row.get("contains")
    if listed is None:
        listed = without_thoughts(str(row["completion"]))
    wanted = list(listed) if isinstance(listed, list | tuple) else [listed]
    if not wanted:
        raise BadRow("its list `contains` is empty")
    texts = ["" if text is None else str(text) for text in wanted]
    if not all(map(_plain, texts)):
        raise BadRow("a text that answers should contain is empty")
    return texts


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
