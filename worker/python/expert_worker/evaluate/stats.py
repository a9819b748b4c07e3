"""Confidence intervals of accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TypedDict

NORMAL_95 = 1.959963984540054


class Share(TypedDict):
    """Right answers of all, with a 95% interval; JSON as it stands."""

    correct: int
    total: int
    accuracy: float
    low: float
    high: float


def share(correct: Sequence[bool]) -> Share:
    low, high = wilson(sum(correct), len(correct))
    accuracy = sum(correct) / len(correct) if correct else 0.0
    return Share(correct=sum(correct), total=len(correct), accuracy=accuracy, low=low, high=high)


def wilson(correct: int, total: int) -> tuple[float, float]:
    """Wilson's score interval: unlike the usual one it stays inside 0..1 and is right near both ends."""
    if total == 0:
        return 0.0, 1.0
    rate, square = correct / total, NORMAL_95**2
    middle = (rate + square / (2 * total)) / (1 + square / total)
    half = NORMAL_95 / (1 + square / total) * sqrt(rate * (1 - rate) / total + square / (4 * total**2))
    return max(0.0, middle - half), min(1.0, middle + half)
