"""Right when the answer names the reference's label, and no other.

An answer is a label itself, or a text in which exactly one of the labels occurs as a word of its text. A
label of one character counts in its own case, since "a" is a word as well, and where the answer says which
one it chooses (`The answer is B`, or a line that begins with `B)`), other labels in the text do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
        letters = {label.strip(_EDGES) or label: plain for plain, label in self._by_plain.items()}
        self._letters = {text: self._by_plain[plain] for text, plain in letters.items() if len(plain) == 1}
        # The longest first, so that "not positive" is not read as "positive".
        longest = sorted(self._by_plain, key=lambda plain: (-len(plain), plain))
        self._any = re.compile(rf"(?<!\w){_one_of(plain for plain in longest if len(plain) > 1)}(?!\w)")
        letter = rf"({_one_of(self._letters)})(?!\w)"
        self._any_letter = re.compile(rf"(?<!\w){letter}")
        self._chosen = (
            re.compile(rf"(?i:\banswer(?:\s+is)?)[\s:*_\"'`(\[]+{letter}"),
            re.compile(rf"^[^\w\n]*{letter}[*_]*(?:[).:\]]|\s*[-\u2013\u2014]|\s*$)", re.MULTILINE),
        )

    def exactly(self, text: str) -> str | None:
        return self._by_plain.get(_plain(text))

    def named_in(self, answer: str) -> set[str]:
        """The label that the answer is, or every label that occurs in it."""
        text = unfenced(answer)
        whole = self.exactly(text)
        if whole is not None:
            return {whole}
        for chosen in self._chosen:
            if found := chosen.findall(text):
                return {self._letters[letter] for letter in found}
        words = {self._by_plain[plain] for plain in self._any.findall(_spaced(text))}
        return words | {self._letters[letter] for letter in self._any_letter.findall(text)}

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


def _one_of(texts: Iterable[str]) -> str:
    """Matches nothing where there are none."""
    return f"(?:{'|'.join(map(re.escape, texts)) or '(?!)'})"


def _spaced(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(text: str) -> str:
    return _spaced(text).strip(_EDGES) or _spaced(text)
