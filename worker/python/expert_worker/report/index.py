"""All experts' runs on one page: the best of each first, with a link to its report."""

import os
import time
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from expert_worker.report import shares
from expert_worker.report.axes import SIDE, axis_over, steps_axis
from expert_worker.report.charts import svg, thinned
from expert_worker.report.curves import series
from expert_worker.report.numbers import duration, moment, short, whole
from expert_worker.report.parts import Raw, document, section, state, table, text, tiles
from expert_worker.report.read import Run
from expert_worker.report.verdict import KEY

_HEAD = (
    "expert",
    "score, 0 to 100%",
    "base",
    "adapter",
    "loss",
    "validation loss",
    "tokens/s",
    "time",
    "when",
)
_NUMBERS = frozenset({2, 3, 5, 6, 7})
_SPARK_POINTS = 80


def index(runs: Sequence[Run], home: Path) -> str:
    """`home` is the folder that the page will lie in: links count from it, so that all of it can be moved."""
    ordered = by_worth(runs)
    best = _best(ordered)
    others = [run for run in ordered if run not in best]
    lead = f"{_count(len(best), 'expert')}, {_count(len(runs), 'run')} · {moment(time.time())}"
    sections = [
        f"<h1>Experts</h1>\n<p class='lead'>{lead}</p>",
        tiles(_totals(best, runs)),
        section("The best run of each expert", KEY + _table(best, home)),
        section("Other runs", _table(others, home)),
    ]
    return document("Experts", sections)


def by_worth(runs: Iterable[Run]) -> list[Run]:
    """By name; within an expert the best score first, then the lowest loss, then the newest."""
    return sorted(runs, key=lambda run: (run.expert, -_accuracy(run), _loss(run), -run.told_at))


def _best(ordered: Sequence[Run]) -> list[Run]:
    firsts: dict[str, Run] = {}
    for run in ordered:
        firsts.setdefault(run.expert, run)
    return list(firsts.values())


def _accuracy(run: Run) -> float:
    return float((run.scores.get("adapter") or {}).get("accuracy", -1.0))


def _loss(run: Run) -> float:
    found = run.result.get("eval_loss") or run.result.get("train_loss")
    return float(found) if isinstance(found, int | float) else float("inf")


def _totals(best: Sequence[Run], runs: Sequence[Run]) -> list[tuple[str, str]]:
    gains = [
        g for run in best if (g := shares.gain(run.scores.get("base"), run.scores.get("adapter"))) is not None
    ]
    seconds = sum(run.result.get("seconds") or 0.0 for run in runs)
    found = [
        ("experts", str(len(best))),
        ("runs finished", f"{sum(run.state == 'finished' for run in runs)} of {len(runs)}"),
        ("tokens trained on", short(sum(run.result.get("tokens") or 0 for run in runs))),
        ("time in training", duration(seconds)),
    ]
    if gains:
        found.insert(2, ("mean gain over the base", f"{sum(gains) / len(gains):+.1f} points"))
    return found


def _table(runs: Sequence[Run], home: Path) -> str:
    """Without the columns that no run has anything for."""
    rows = [_row(run, home) for run in runs]
    used = [place for place in range(len(_HEAD)) if any(row[place] for row in rows)]
    numbers = frozenset(now for now, before in enumerate(used) if before in _NUMBERS)
    kept = [[row[place] for place in used] for row in rows]
    return table([_HEAD[place] for place in used], kept, numbers, "runs")


def _row(run: Run, home: Path) -> list[object]:
    base, adapter = run.scores.get("base"), run.scores.get("adapter")
    speed, spent = run.result.get("tokens_per_second"), run.result.get("seconds")
    loss = run.result.get("eval_loss")
    return [
        _name(run, home),
        shares.picture(base, adapter),
        shares.number(base),
        Raw(f"<b>{shares.number(adapter)}</b>") if adapter else "",
        _spark(run),
        f"{loss:.4f}" if isinstance(loss, int | float) else "",
        short(speed) if isinstance(speed, int | float) else "",
        duration(spent) if isinstance(spent, int | float) else "",
        Raw(f"<time>{moment(run.told_at)}</time>") if run.told_at else "",
    ]


def _name(run: Run, home: Path) -> Raw:
    steps = run.result.get("steps") or (run.steps[-1]["step"] if run.steps else 0)
    base = str(run.recipe.get("base", {}).get("name", "unknown base"))
    words = [base, _count(steps, "step"), *([run.folder.name] if run.folder.name != base else [])]
    link = escape(address(run.folder / "report.html", home))
    mood = state(run.state) if run.state != "finished" else ""
    return Raw(f'<a href="{link}">{text(run.expert)}</a> {mood}<small>{text(", ".join(words))}</small>')


def address(page: Path, home: Path) -> str:
    try:
        return quote(Path(os.path.relpath(page.resolve(), home.resolve())).as_posix())
    except ValueError:  # On Windows, from one drive to another.
        return page.resolve().as_uri()


def _spark(run: Run) -> Raw:
    points = thinned(series(run, "loss"), _SPARK_POINTS)
    if len(points) < 2:
        return Raw("")
    across, up = steps_axis([x for x, _ in points]), axis_over([y for _, y in points], 2)
    places = " ".join(f"{across.place(x):.1f},{SIDE - up.place(y):.1f}" for x, y in points)
    label = f"training loss from {points[0][1]:.4g} to {points[-1][1]:.4g}"
    return Raw(
        f'<span class="spark">{svg(f"""<polyline class="line c0" points="{places}"/>""", label)}</span>'
    )


def _count(number: int, noun: str) -> str:
    return f"{whole(number)} {noun}{'' if number == 1 else 's'}"
