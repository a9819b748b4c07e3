"""Right when the answer names the reference's label, and no other.

An answer is a label itself, or a text in which exactly one of the labels occurs as a word of its text. A
label of one character counts in its own case, since "a" is a word as well. Beside such labels, where the
answer says which one it chooses (`The answer is B`, or a line that begins with `B)`, but not `A or B`), other
labels in the text do not count. A number does not count inside another one (`4.5`, `-4`, `4%`, `4/5`), and a
label in a script without spaces need not stand apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from expert_worker.evaluate.answer import unfenced
from expert_worker.evaluate.verdict import RIGHT, Row, Verdict, wrong

_EDGES = " \t\n.,:;!?\"'`*_()[]"
# Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer, Kana and Han.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Particles follow a Korean word without a space.
_HANGUL = "\u1100-\u11ff\uac00-\ud7ff"
# What stands next to a label in other words. `_` may be a mark of Markdown, so it counts beside another word.
_BEFORE = rf"(?<![^\W_{UNSPACED}])(?<![^\W_]_)(?<![^\W_]__)"
_AFTER = rf"(?![^\W_{UNSPACED}{_HANGUL}]|_+[^\W_])"
# What makes a number a part of another: 1.4, -4, $4, 10:4; 4%, 4.5, 4-5; not 4.0 and the end of a sentence.
_BEFORE_NUMBER = r"(?<![.+\-\u2212$€£¥])(?<!\d[,:/])"
_AFTER_NUMBER = r"(?!\s?%|[$€£¥]|[.,:/-](?!(?<=\.)0(?!\d))\d)"
# Directly before a label they deny it.
_DENIALS = "".join(rf"(?<!{word})" for word in ("不", "非", "未", "没", "無", "无", "ไม่"))
# Stands for a label in a text.
_LABEL = "\0"
_AROUND = r"[\s*_\"'`()\[\]]*+"
# "or B", ", B or C", "/B"
_OTHERS = rf"{_AROUND}(?:,{_AROUND}{_LABEL}{_AROUND})*+(?:,{_AROUND})?(?:or\b|and\b|&|/){_AROUND}{_LABEL}"
_CHOSEN = (
    re.compile(rf"\banswer(?:\s+is)?[\s:*_\"'`(\[]+({_LABEL})(?!{_OTHERS})"),
    re.compile(
        rf"^[^\w\n{_LABEL}]*({_LABEL})(?!{_OTHERS})[*_]*(?:[).:\]]|\s*[-\u2013\u2014]|\s*$)", re.MULTILINE
    ),
)


class Labels:
    def __init__(self, labels: Sequence[str]) -> None:
        self._by_plain: dict[str, str] = {}
        for label in labels:
            self._by_plain.setdefault(_plain(label), label)
        # Of labels that differ in case, spaces or punctuation around them, the first stands for all.
        self.labels = tuple(self._by_plain.values())
        self._letters = {
            plain: label.strip(_EDGES) or label.strip()
            for plain, label in self._by_plain.items()
            if len(plain) == 1
        }
        # The longest first, so that "not positive" is not read as "positive", nor "C++" as "C".
        longest = sorted(self._by_plain, key=lambda plain: (-len(plain), plain))
        one = "|".join(map(_as_word, filter(None, longest)))
        self._any = re.compile(one or "(?!)")

    def exactly(self, text: str) -> str | None:
        return self._by_plain.get(_plain(text))

    def wanted(self, row: Row) -> str | None:
        return self.exactly(unfenced(str(row["completion"])))

    def named_in(self, answer: str) -> set[str]:
        """The label that the answer is, or every label that occurs in it."""
        text = unfenced(answer)
        whole = self.exactly(text)
        if whole is not None:
            return {whole}
        labels, marked = self._marked(text)
        for chosen in _CHOSEN if self._letters else ():
            if found := list(chosen.finditer(marked)):
                return {labels[marked.count(_LABEL, 0, it.start(1))] for it in found}
        return set(labels)

    def _marked(self, text: str) -> tuple[list[str], str]:
        """The labels in the text, and the text with each replaced by `_LABEL`."""
        # Only where one character becomes several (ß), so that folding the rest keeps all places.
        cased = "".join(it if len(it.casefold()) == 1 else it.casefold() for it in text.replace(_LABEL, " "))
        labels: list[str] = []

        def mark(found: re.Match[str]) -> str:
            plain = _spaced(found[0])
            if plain in self._letters and cased[found.start() : found.end()] != self._letters[plain]:
                return found[0]
            labels.append(self._by_plain[plain])
            return _LABEL

        return labels, self._any.sub(mark, cased.casefold())

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
        wanted = self._labels.wanted(row)
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


def _as_word(plain: str) -> str:
    """A pattern of the label where it is not a part of a longer word or number."""
    before, after = _BEFORE, _AFTER
    if re.match(rf"[{UNSPACED}]", plain):
        # One character is a part of many words, but rarely their first one.
        before = _DENIALS + (r"(?<!\w)" if len(plain) == 1 else "")
    elif re.match(r"[+-]?\d", plain):
        before += _BEFORE_NUMBER
    if re.search(rf"[{UNSPACED}{_HANGUL}]$", plain):
        after = ""
    elif plain[-1].isdigit():
        after += _AFTER_NUMBER
    return before + re.escape(plain).replace(r"\ ", r"\s+") + after


def _spaced(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(text: str) -> str:
    return _spaced(text).strip(_EDGES) or _spaced(text)
