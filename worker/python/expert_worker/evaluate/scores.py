"""Answers and their verdicts: accuracies with confidence intervals, tables and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.verdict import Row
from expert_worker.results import Answer, Example, ScoreLine, Share

FAILURES = 12
GAINS = 6
SHOWN = 600
NORMAL_95 = 1.959963984540054


def judge_texts(
    scorer: str,
    rows: Sequence[Row],
    texts: Sequence[str],
    each: Callable[[], None] = lambda: None,
    confined: Callable[[Confinement], None] = lambda _: None,
) -> list[Answer]:
    verdicts = judge_all(scorer, rows, texts, each=each, confined=confined)
    return [
        Answer(text=text, correct=verdict.correct, reason=verdict.reason)
        for text, verdict in zip(texts, verdicts, strict=True)
    ]


def overall(judged: Sequence[Answer]) -> Share:
    return share([answer.correct for answer in judged])


def table(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
) -> list[ScoreLine]:
    """A line for each name that a row goes by, most rows first."""
    found = sorted({name for row in rows for name in names(row)})
    lines = [
        ScoreLine(name=name, base=_part(rows, names, base, name), adapter=_part(rows, names, adapter, name))
        for name in found
    ]
    return sorted(lines, key=lambda line: (-_size(line), line.name))


def by_tag(row: Row) -> Sequence[str]:
    return [str(tag) for tag in row.get("tags", ())]


def by_level(row: Row) -> Sequence[str]:
    return [str(row["level"])] if "level" in row else []


def failures(
    rows: Sequence[Row], base: Sequence[Answer] | None, adapter: Sequence[Answer] | None
) -> list[Example]:
    """Failures, side by side: the adapter's wrong answers, or the base's where there is no adapter."""
    wrong = adapter if adapter is not None else base or []
    places = [place for place, answer in enumerate(wrong) if not answer.correct]
    return _examples(rows, base, adapter, places, FAILURES)


def gains(
    rows: Sequence[Row], base: Sequence[Answer] | None, adapter: Sequence[Answer] | None
) -> list[Example]:
    """Gains, side by side: the adapter is right and the base is not."""
    pairs = enumerate(zip(base or [], adapter or [], strict=False))
    places = [place for place, (before, after) in pairs if after.correct and not before.correct]
    return _examples(rows, base, adapter, places, GAINS)


def _examples(
    rows: Sequence[Row],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
    places: Sequence[int],
    most: int,
) -> list[Example]:
    """Some from everywhere in the set."""
    step = max(1, len(places) // most)
    return [
        Example(
            prompt=rows[place]["messages"][-1]["content"][:SHOWN],
            expected=str(rows[place]["completion"])[:SHOWN],
            tags=tuple(by_tag(rows[place])),
            base=_shown(base, place),
            adapter=_shown(adapter, place),
        )
        for place in places[::step][:most]
    ]


def _shown(judged: Sequence[Answer] | None, place: int) -> Answer | None:
    if judged is None:
        return None
    answer = judged[place]
    return Answer(text=answer.text[:SHOWN], correct=answer.correct, reason=answer.reason)


def _part(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    judged: Sequence[Answer] | None,
    name: str,
) -> Share | None:
    if judged is None:
        return None
    return share([answer.correct for row, answer in zip(rows, judged, strict=True) if name in names(row)])


def _size(line: ScoreLine) -> int:
    part = line.adapter or line.base
    return part.total if part else 0


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
