"""The page of a search: its winner, every trial, and how accuracy grew with the length of training."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import TypeGuard

from expert_worker.errors import BadInput
from expert_worker.record_reader import read_json, read_record
from expert_worker.recorded import PairedComparison, SearchRecord, SearchScore, SearchTrial, Share
from expert_worker.report.charts import Line, curve, values_axis
from expert_worker.report.html import Raw, charts, document, heading, section, table, tiles
from expert_worker.report.numbers import duration, whole
from expert_worker.report.scores import accuracy, describe, interval_picture

FILE = "search.json"
_LENGTHS = (1 / 9, 1 / 3, 1.0)
_RUNGS = ("1/9 of the steps", "1/3", "all")
_MOST_TRIALS = 500
_MOST_CURVES = 12
_LARGEST = 1e15
"""A setting beyond this is damaged; its chart would be drawn for it alone."""


def search_page(folder: Path) -> str:
    record, _ = read_record(SearchRecord, read_json(folder / FILE))
    if not record.trials:
        raise BadInput(
            f"{folder} holds no search: {FILE} is missing or damaged",
            hint="Name the folder of a search.",
            code="no-search",
        )
    expert = record.expert or "an expert"
    trials = list(enumerate(record.trials[:_MOST_TRIALS]))
    order = sorted(trials, key=lambda one: _rank_key(one[1]))
    space = ", ".join(f"{part.name}={part.values}" for part in record.space)
    return document(
        f"Search for {expert}",
        [
            heading(f"Search for {expert}", f"{record.base or 'unknown base'} · {space}"),
            tiles(_numbers(record)),
            section("Winner", _winner(record)),
            section("Accuracy by length of training", charts([_curves(record, order)])),
            *[section(f"Accuracy by {name}", charts([chart])) for name, chart in _by_setting(record)],
            section("Trials", _table(record, order)),
        ],
    )


def _numbers(record: SearchRecord) -> list[tuple[str, str]]:
    scores = [score for trial in record.trials for score in trial.scores]
    failed = sum(score.failure is not None for score in scores)
    found = [
        ("trials", whole(len(record.trials))),
        ("trainings", whole(len(scores))),
        ("time", duration(record.seconds or 0.0)),
        ("seed", str(record.seed or 0)),
    ]
    return [*found, ("failed", whole(failed))] if failed else found


def _winner(record: SearchRecord) -> str:
    place = record.winner
    if place is None or place >= len(record.trials):
        return "<p>The search has not ended yet.</p>"
    score = _at(record.trials[place], record.winner_rung or 0)
    share = score.share if score and score.share else Share()
    name = "The manifest's own recipe" if place == 0 else f"Trial {place}"
    body = f"<p><b>{describe(share)}</b> of validation rows right.</p>"
    rows = [(one.name or "", _value(one.value)) for one in record.trials[place].settings]
    settings = table(["setting", "value"], rows, frozenset({1}))
    return f"<p>{name}</p>{body}{_against_own(record.comparison)}{settings}"


def _against_own(paired: PairedComparison | None) -> str:
    if paired is None or paired.difference is None or paired.low is None or paired.high is None:
        return ""
    points, low, high = (100 * value for value in (paired.difference, paired.low, paired.high))
    mood, noise = ("warn", ": within noise") if low <= 0 else ("good", "")
    difference = f"{points:+.1f} points (95%: {low:+.1f} to {high:+.1f}){noise}"
    return (
        f'<p>Less the manifest\'s own recipe on the same rows: <span class="{mood}">{difference}.</span></p>'
    )


def _at(trial: SearchTrial, rung: int) -> SearchScore | None:
    return next((score for score in trial.scores if score.rung == rung), None)


def _accuracy(trial: SearchTrial, rung: int) -> float | None:
    score = _at(trial, rung)
    return score.share.accuracy if score and score.share else None


def _rank_key(trial: SearchTrial) -> tuple[int, float, float, float, float]:
    """The best trial has the least: the longest rung, right answers, validation loss, steps, rank. The same
    order as `better` in cli/src/search/halving.rs."""
    for rung in reversed(range(len(_LENGTHS))):
        found, score = _accuracy(trial, rung), _at(trial, rung)
        if found is not None and score is not None:
            steps = inf if score.steps is None else score.steps
            return -rung, -found, _or_infinity(score.validation_loss), steps, _rank(trial)
    return 1, 0.0, 0.0, 0.0, 0.0


def _or_infinity(value: float | None) -> float:
    return value if value is not None and isfinite(value) else inf


def _rank(trial: SearchTrial) -> float:
    value = next((one.value for one in trial.settings if one.key == "rank"), 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _name(place: int) -> str:
    return "own recipe" if place == 0 else f"trial {place}"


def _curves(record: SearchRecord, order: Sequence[tuple[int, SearchTrial]]) -> str:
    """Of the trials that got furthest: the winner and the manifest's own recipe stand out."""
    lines = []
    shown = [one for one in order if one[0] in (0, record.winner)]
    shown += [one for one in order if one[0] not in (0, record.winner)]
    for place, trial in shown[:_MOST_CURVES]:
        found = [(length * 100, _accuracy(trial, rung)) for rung, length in enumerate(_LENGTHS)]
        points = [(x, y * 100) for x, y in found if y is not None]
        hue = 1 if place == 0 and record.winner != 0 else 0
        lines.append(Line(_name(place), points, hue, dots=True, faint=place not in (0, record.winner)))
    return curve(
        "right answers to validation rows",
        "%",
        lines,
        from_zero=True,
        along="percent of the trial's steps",
        across=values_axis([length * 100 for length in _LENGTHS], lambda x: f"{x:.0f}"),
        point=lambda x: f"{x:.0f}% of the steps",
        value=_percent,
    )


def _by_setting(record: SearchRecord) -> list[tuple[str, str]]:
    """At the first rung, which every trial was trained for."""
    names = list(dict.fromkeys(one.name or "" for trial in record.trials for one in trial.settings))
    found = []
    for name in names:
        points = []
        for trial in record.trials[:_MOST_TRIALS]:
            value = next((one.value for one in trial.settings if one.name == name), None)
            right = _accuracy(trial, 0)
            if _is_number(value) and right is not None:
                points.append((value, right * 100))
        if len({x for x, _ in points}) > 1:
            found.append((name, _setting_chart(name, sorted(points))))
    return found


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def _setting_chart(name: str, points: list[tuple[float, float]]) -> str:
    """Rates are compared by their power of ten."""
    is_rate = points[0][0] > 1 / _LARGEST and points[-1][0] < 1
    return curve(
        f"right answers after {_RUNGS[0]}",
        "%",
        [Line("right answers", points, dots=True)],
        from_zero=True,
        along=f"{name}, logarithmic" if is_rate else name,
        across=values_axis([x for x, _ in points], _value, logarithmic=is_rate),
        point=lambda x: f"{name} {_value(x)}",
        value=_percent,
    )


def _percent(value: float) -> str:
    return f"{value:.1f}%"


def _table(record: SearchRecord, order: Sequence[tuple[int, SearchTrial]]) -> str:
    names = list(dict.fromkeys(one.name or "" for trial in record.trials for one in trial.settings))
    head = ["trial", *names, *_RUNGS, "longest, 0 to 100%", "validation loss", "state"]
    rows = [_row(record, place, trial, names) for place, trial in order]
    return table(head, rows, frozenset(range(1, 1 + len(names) + len(_RUNGS))), "runs")


def _row(record: SearchRecord, place: int, trial: SearchTrial, names: Sequence[str]) -> list[object]:
    values = {one.name: _value(one.value) for one in trial.settings}
    shares = [score.share if (score := _at(trial, rung)) else None for rung in range(len(_LENGTHS))]
    last = next((share for share in reversed(shares) if share), None)
    loss = next((score.validation_loss for score in reversed(trial.scores) if score.share), None)
    failure = next((score.failure for score in trial.scores if score.failure), None)
    ended = Raw('<span class="state good">best</span>') if place == record.winner else ""
    return [
        _name(place),
        *[values.get(name, "") for name in names],
        *[accuracy(share) for share in shares],
        interval_picture(None, last),
        "" if loss is None else f"{loss:.4f}",
        failure or ended,
    ]


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
