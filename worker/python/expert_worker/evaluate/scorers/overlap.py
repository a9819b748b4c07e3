"""How much an answer has in common with the reference: ROUGE and chrF, from the packages that papers use."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from expert_worker.evaluate.answer import without_thoughts
from expert_worker.evaluate.scorers.classification import UNSPACED
from expert_worker.evaluate.verdict import Row, Verdict

_UNSPACED = re.compile(f"[{UNSPACED}]")


class _Words:
    """Words of any script, and each character of one without spaces; the package's own knows Latin letters
    without accents only.
    """

    def tokenize(self, text: str) -> list[str]:
        words: list[str] = []
        before = ""
        for sign in unicodedata.normalize("NFC", text.casefold()):
            kind = _kind(sign)
            # Vowel signs and accents belong to what they stand on.
            if (kind == "mark" and before) or (kind == "letter" and before == "letter"):
                words[-1] += sign
            elif kind in ("letter", "alone"):
                words.append(sign)
                before = kind
            else:
                before = ""
        return words


def _kind(sign: str) -> str:
    if unicodedata.category(sign).startswith("M"):
        return "mark"
    if not sign.isalnum():
        return ""
    return "alone" if _UNSPACED.match(sign) else "letter"


class RougeScorer:
    """The F1 of shared words, pairs of words, or of the longest common sequence."""

    def __init__(self, variant: str = "rougeL") -> None:
        from rouge_score.rouge_scorer import RougeScorer as Rouge

        self._variant = variant
        self._rouge: Any = Rouge([variant], use_stemmer=False, tokenizer=_Words())

    def extract(self, text: str) -> str:
        return without_thoughts(text)

    def judge(self, row: Row, answer: str) -> Verdict:
        found = self._rouge.score(without_thoughts(str(row["completion"])), answer)[self._variant]
        reason = f"precision {found.precision:.2f}, recall {found.recall:.2f}"
        return Verdict(found.fmeasure, "" if found.fmeasure >= 1 else reason)


class ChrfScorer:
    """The F-score of shared sequences of characters, with sacrebleu's defaults."""

    def __init__(self) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self._chrf: Any = CHRF()

    def extract(self, text: str) -> str:
        return without_thoughts(text)

    def judge(self, row: Row, answer: str) -> Verdict:
        score = self._chrf.sentence_score(answer, [without_thoughts(str(row["completion"]))]).score / 100
        # 100 is a sum of floats.
        return Verdict(
            1.0 if score > 1 - 1e-9 else score, "" if score > 1 - 1e-9 else f"chrF {100 * score:.1f}"
        )
