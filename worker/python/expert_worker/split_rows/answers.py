"""What the answers of a data set are, and so which scorer can judge them."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter

CLASSIFICATION, JSON, FREE_TEXT, EXACT = "classification", "json", "chrf", "exact"
MOST_LABELS = 50
_LONGEST_LABEL = 60
# Of each label, on average.
FEWEST_ROWS = 4
# Most rows have an answer that no other has: a number, a name, a code.
_LONGEST_SHORT = 40
_PACKAGE = "sacrebleu"


class Answers:
    """Counts while the rows are read, in bounded memory."""

    def __init__(self) -> None:
        self.rows = 0
        self._labels: Counter[str] = Counter()
        self._are_labels = True
        self._are_json = True
        self._are_short = True

    def add(self, answer: str) -> str | None:
        """The answer, if it may be a label."""
        text = answer.strip()
        self.rows += 1
        self._are_json = self._are_json and _is_json(text)
        self._are_short = self._are_short and len(text) <= _LONGEST_SHORT and "\n" not in text
        is_label = bool(text) and len(text) <= _LONGEST_LABEL and "\n" not in text
        self._are_labels = self._are_labels and is_label
        if self._are_labels:
            self._labels[text] += 1
            self._are_labels = len(self._labels) <= MOST_LABELS
        return text if is_label else None

    @property
    def labels(self) -> list[str]:
        return sorted(self._labels) if self._is_classification() else []

    def scorer(self) -> str | None:
        """None where the rows are texts without questions."""
        if not self.rows:
            return None
        if self._are_json:
            return JSON
        if self._is_classification():
            return CLASSIFICATION
        if self._are_short or importlib.util.find_spec(_PACKAGE) is None:
            return EXACT
        return FREE_TEXT

    def is_free_text(self) -> bool:
        return self.rows > 0 and not (self._are_json or self._is_classification() or self._are_short)

    def _is_classification(self) -> bool:
        return self._are_labels and 1 < len(self._labels) <= self.rows / FEWEST_ROWS


def _is_json(text: str) -> bool:
    """Objects and lists: a lone number or word is compared as text."""
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
