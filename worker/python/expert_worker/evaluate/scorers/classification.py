"""Right when the answer names the reference's label, and no other.

An answer is a label itself, or a text in which exactly one of the labels occurs as a word of its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from expert_worker.evaluate.answer import unfenced
from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, wrong

_EDGES = " \t\n.,:;!?\"'`*()[]"


class Labels:
    def __init__(self, labels: Sequence[str]) -> None:
        self._by_plain: dict[str, str] = {}
        for label in labels:
            self._by_plain.setdefault(_plain(label), label)
        # Of labels that differ in case, spaces or punctuation around them, the first stands for all.
        self.labels = tuple(self._by_plain.values())
        # The longest first, so that "not positive" is not read as "positive".
        longest = sorted(self._by_plain, key=lambda plain: (-len(plain), plain))
        self._any = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)")

    def exactly(self, text: str) -> str | None:
        return self._by_plain.get(_plain(text))

    def named_in(self, answer: str) -> set[str]:
        """The label that the answer is, or every label that occurs in it."""
        text = unfenced(answer)
        whole = self.exactly(text)
        if whole is not None:
            return {whole}
        return {self._by_plain[plain] for plain in self._any.findall(_spaced(text))}

    def of(self, answer: str) -> str | None:
        """None where the answer names no label, or several: it is not guessed which is meant."""
        named = self.named_in(answer)
        return next(iter(named)) if len(named) == 1 else None


class ClassificationScorer:
    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = Labels(labels)

    def extract(self, text: str) -> str:
        return text

    def judge(self, row: Row, answer: str) -> Verdict:
        wanted = self._labels.exactly(str(row["completion"]))
        named = self._labels.named_in(answer)
        if len(named) != 1:
            count = "no label" if not named else f"{len(named)} labels"
            return wrong(f"names {count}: {answer.strip()[:80]!r}")
        (found,) = named
        return RIGHT if found == wanted else wrong(f"{found!r} instead of {wanted!r}")

    def result_key(self, row: Row, answer: str) -> object:
        """The label; None where it names none or several."""
        del row
        return self._labels.of(answer)


def _spaced(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(text: str) -> str:
    return _spaced(text).strip(_EDGES) or _spaced(text)
