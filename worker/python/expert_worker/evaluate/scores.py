"""Answers and their verdicts: mean scores with confidence intervals, tables and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from expert_worker.evaluate.cached_scores import CachedScores
from expert_worker.evaluate.confinement import Confinement
from expert_worker.evaluate.decode import Written
from expert_worker.evaluate.intervals import interval, of_differences
from expert_worker.evaluate.model_verdicts import model_verdicts
from expert_worker.evaluate.rows import level_of, spread, tags_of, text_of
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.verdict import Row, Verdict
from expert_worker.events.models import ACCURACY
from expert_worker.results import Answer, Example, PairedComparison, ScoreLine, Share, Unparsed

FAILURES = 12
GAINS = 6
SHOWN = 600
MEAN_SCORE = "mean score"


def judge_answers(
    scorer: ChosenScorer | str,
    rows: Sequence[Row],
    written: Sequence[Written],
    each: Callable[[], None] = lambda: None,
    confined: Callable[[Confinement], None] = lambda _: None,
    cache: CachedScores | None = None,
) -> list[Answer]:
    texts = [answer.text for answer in written]
    verdicts = verdicts_of(scorer, rows, texts, each, confined, cache)
    return [
        Answer(
            text=answer.text,
            correct=verdict.correct,
            reason=verdict.reason,
            score=verdict.score,
            unscored=verdict.failed,
            unparsed=verdict.unparsed,
            cut=answer.cut,
        )
        for answer, verdict in zip(written, verdicts, strict=True)
    ]


def verdicts_of(
    scorer: ChosenScorer | str,
    rows: Sequence[Row],
    texts: Sequence[str],
    each: Callable[[], None] = lambda: None,
    confined: Callable[[Confinement], None] = lambda _: None,
    cache: CachedScores | None = None,
    *,
    with_result_keys: bool = False,
) -> list[Verdict]:
    """`cache` keeps what a model that judges said."""
    if not isinstance(scorer, ChosenScorer) or scorer.judge is None:
        return judge_all(scorer, rows, texts, each=each, confined=confined, with_result_keys=with_result_keys)
    verdicts = model_verdicts(scorer.judge, rows, texts, each, cache)
    if not with_result_keys:
        return verdicts
    return [
        replace(verdict, result_key=text.strip() or None)
        for verdict, text in zip(verdicts, texts, strict=True)
    ]


def value(answer: Answer) -> float:
    return float(answer.correct) if answer.score is None else answer.score


def overall(judged: Sequence[Answer]) -> Share:
    return share([value(answer) for answer in judged])


def unscored(judged: Sequence[Answer]) -> int:
    return sum(answer.unscored for answer in judged)


def unparsed(scorer: ChosenScorer, judged: Sequence[Answer]) -> Unparsed | None:
    """None where the scorer has no parser that it says anything of."""
    refused = [answer for answer in judged if answer.unparsed]
    if not refused and not scorer.has_parser:
        return None
    return Unparsed(answers=len(refused), cut=sum(answer.cut for answer in refused))


def measure(scorer: ChosenScorer, *sides: Sequence[Answer] | None) -> str:
    """What the mean of these scores is called."""
    if scorer.metric is not None:
        return scorer.metric
    values = (value(answer) for judged in sides for answer in judged or ())
    return ACCURACY if all(score in (0, 1) for score in values) else MEAN_SCORE


def compared(base: Sequence[Answer] | None, adapter: Sequence[Answer] | None) -> PairedComparison | None:
    """Row by row: what both find hard or easy does not blur the difference."""
    if base is None or adapter is None:
        return None
    differences = [value(after) - value(before) for before, after in zip(base, adapter, strict=True)]
    low, high = of_differences(differences)
    return PairedComparison(
        difference=sum(differences) / len(differences) if differences else 0.0,
        low=low,
        high=high,
        better=sum(difference > 0 for difference in differences),
        worse=sum(difference < 0 for difference in differences),
    )


def table(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
    against: Sequence[Answer] | None = None,
) -> list[ScoreLine]:
    """A line for each name that a row goes by, most rows first."""

    def line(name: str) -> ScoreLine:
        third = {} if against is None else {"against": _part(rows, names, against, name)}
        base_part, adapter_part = _part(rows, names, base, name), _part(rows, names, adapter, name)
        return ScoreLine(name=name, base=base_part, adapter=adapter_part, **third)

    lines = [line(name) for name in sorted({name for row in rows for name in names(row)})]
    return sorted(lines, key=lambda line: (-_size(line), line.name))


def by_tag(row: Row) -> Sequence[str]:
    return tags_of(row)


def by_level(row: Row) -> Sequence[str]:
    level = level_of(row)
    return [] if level is None else [level]


def failures(
    rows: Sequence[Row], base: Sequence[Answer] | None, adapter: Sequence[Answer] | None
) -> list[Example]:
    """The lowest scores, side by side: the adapter's, or the base's where there is no adapter."""
    wrong = adapter if adapter is not None else base or []
    missed = {place: 1 - value(answer) for place, answer in enumerate(wrong) if not answer.correct}
    return _examples(rows, base, adapter, _foremost(missed, FAILURES))


def gains(
    rows: Sequence[Row], base: Sequence[Answer] | None, adapter: Sequence[Answer] | None
) -> list[Example]:
    """The largest gains, side by side: the adapter scores higher than the base."""
    pairs = enumerate(zip(base or [], adapter or [], strict=False))
    gained = {place: value(after) - value(before) for place, (before, after) in pairs}
    gained = {place: gain for place, gain in gained.items() if gain > 0}
    return _examples(rows, base, adapter, _foremost(gained, GAINS))


def _foremost(amounts: Mapping[int, float], most: int) -> list[int]:
    """The places with the largest amounts, in order; all of those that are equal to the least of them."""
    if len(amounts) <= most:
        return sorted(amounts)
    least = sorted(amounts.values(), reverse=True)[most - 1]
    above = [place for place, amount in amounts.items() if amount > least]
    equal = [place for place, amount in amounts.items() if amount == least]
    return sorted([*above, *spread(equal, most - len(above))])


def _examples(
    rows: Sequence[Row],
    base: Sequence[Answer] | None,
    adapter: Sequence[Answer] | None,
    places: Sequence[int],
) -> list[Example]:
    return [
        Example(
            prompt=text_of(rows[place]["messages"][-1])[:SHOWN],
            expected=str(rows[place]["completion"])[:SHOWN],
            tags=tuple(by_tag(rows[place])),
            base=_shown(base, place),
            adapter=_shown(adapter, place),
        )
        for place in places
    ]


def _shown(judged: Sequence[Answer] | None, place: int) -> Answer | None:
    if judged is None:
        return None
    answer = judged[place]
    return answer.model_copy(update={"text": answer.text[:SHOWN]})


def _part(
    rows: Sequence[Row],
    names: Callable[[Row], Sequence[str]],
    judged: Sequence[Answer] | None,
    name: str,
) -> Share | None:
    if judged is None:
        return None
    return share([value(answer) for row, answer in zip(rows, judged, strict=True) if name in names(row)])


def _size(line: ScoreLine) -> int:
    part = line.adapter or line.base
    return part.total if part else 0


def share(values: Sequence[float]) -> Share:
    low, high = interval(values)
    mean = sum(values) / len(values) if values else 0.0
    full = sum(value >= 1 for value in values)
    return Share(correct=full, total=len(values), accuracy=min(1.0, mean), low=low, high=high)
