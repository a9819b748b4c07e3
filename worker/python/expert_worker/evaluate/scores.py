"""Answers and their verdicts: accuracies with confidence intervals, tables and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, TypedDict

from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.verdict import Row

FAILURES = 12
GAINS = 6
EXAMPLES = ("gains", "failures")
"""Keys of a report that quote answers: for the run's folder, not for results and events."""
SHOWN = 600
NORMAL_95 = 1.959963984540054


class Judged(TypedDict):
    """One answer, as it is kept and shown."""

    text: str
    correct: bool
    reason: str


class Line(TypedDict):
    """One line of a table: base beside adapter."""

    name: str
    base: Share | None
    adapter: Share | None


def judge_texts(
    scorer: str,
    rows: Sequence[Row],
    texts: Sequence[str],
    each: Callable[[], None] = lambda: None,
    confined: Callable[[Confinement], None] = lambda _: None,
) -> list[Judged]:
    verdicts = judge_all(scorer, rows, texts, each=each, confined=confined)
    return [
        Judged(text=text, correct=verdict.correct, reason=verdict.reason)
        for text, verdict in zip(texts, verdicts, strict=True)
    ]


def overall(judged: Sequence[Judged]) -> Share:
    return share([answer["correct"] for answer in judged])


def table(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    base: Sequence[Judged] | None,
    adapter: Sequence[Judged] | None,
) -> list[Line]:
    """A line for each name that a row goes by, most rows first."""
    found = sorted({name for row in rows for name in names(row)})
    lines = [
        Line(name=name, base=_part(rows, names, base, name), adapter=_part(rows, names, adapter, name))
        for name in found
    ]
    return sorted(lines, key=lambda line: (-_size(line), line["name"]))


def by_tag(row: Row) -> Sequence[str]:
    return [str(tag) for tag in row.get("tags", ())]


def by_level(row: Row) -> Sequence[str]:
    return [str(row["level"])] if "level" in row else []


def failures(
    rows: Sequence[Row], base: Sequence[Judged] | None, adapter: Sequence[Judged] | None
) -> list[dict[str, Any]]:
    """Failures, side by side: the adapter's wrong answers, or the base's where there is no adapter."""
    wrong = adapter if adapter is not None else base or []
    places = [place for place, answer in enumerate(wrong) if not answer["correct"]]
    return _examples(rows, base, adapter, places, FAILURES)


def gains(
    rows: Sequence[Row], base: Sequence[Judged] | None, adapter: Sequence[Judged] | None
) -> list[dict[str, Any]]:
    """Gains, side by side: the adapter is right and the base is not."""
    pairs = enumerate(zip(base or [], adapter or [], strict=False))
    places = [place for place, (before, after) in pairs if after["correct"] and not before["correct"]]
    return _examples(rows, base, adapter, places, GAINS)


def _examples(
    rows: Sequence[Row],
    base: Sequence[Judged] | None,
    adapter: Sequence[Judged] | None,
    places: Sequence[int],
    most: int,
) -> list[dict[str, Any]]:
    """Some from everywhere in the set."""
    step = max(1, len(places) // most)
    return [
        {
            "prompt": rows[place]["messages"][-1]["content"][:SHOWN],
            "expected": str(rows[place]["completion"])[:SHOWN],
            "tags": list(by_tag(rows[place])),
            "base": _shown(base, place),
            "adapter": _shown(adapter, place),
        }
        for place in places[::step][:most]
    ]


def _shown(judged: Sequence[Judged] | None, place: int) -> dict[str, Any] | None:
    if judged is None:
        return None
    answer = judged[place]
    return {"text": answer["text"][:SHOWN], "correct": answer["correct"], "reason": answer["reason"]}


def _part(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    judged: Sequence[Judged] | None,
    name: str,
) -> Share | None:
    if judged is None:
        return None
    return share([answer["correct"] for row, answer in zip(rows, judged, strict=True) if name in names(row)])


def _size(line: Line) -> int:
    part = line["adapter"] or line["base"]
    return part["total"] if part else 0


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
