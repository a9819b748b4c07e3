"""All experts' runs on one page: the best of each first, with a link to its report."""

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from urllib.parse import quote

from expert_worker.recorded import TrainResult
from expert_worker.report import scores
from expert_worker.report.charts import SIDE, axis_over, steps_axis, svg
from expert_worker.report.html import Raw, document, section, state, table, text, tiles
from expert_worker.report.numbers import duration, moment, short, whole
from expert_worker.report.read import Run
from expert_worker.report.scores import LEGEND, AnyShare
from expert_worker.report.series import thinned
from expert_worker.routing.models import RoutedShare, RouterRecord

_HEAD = (
    "expert",
    "score, 0 to 100%",
    "base",
    "adapter",
    "further test sets",
    "scored by",
    "loss",
    "validation loss",
    "tokens/s",
    "training time",
    "when (UTC)",
)
_NUMBERS = frozenset({2, 3, 7, 8, 9})
_SPARK_POINTS = 80


@dataclass(frozen=True)
class Listed:
    """What the index shows of a run: thousands of these fit into memory."""

    folder: Path
    expert: str
    # The expert's, for a run in its `weights/`: two experts may have one name.
    expert_folder: Path | None
    base_name: str
    state: str
    result: TrainResult
    steps: int
    base: AnyShare | None
    adapter: AnyShare | None
    further: tuple[tuple[str, AnyShare | None, AnyShare | None], ...]
    scored_by: str
    # Scores where this differs are not compared.
    compared_by: scores.ComparedBy
    test_rows: int | None
    # What was scored, where it is not the run's own adapter on the manifest's rows.
    scores_of: str
    loss: tuple[tuple[float, float], ...]
    last_time: float
    scored_at: float
    # How the score was made otherwise than the expert's newest one.
    difference: str = ""

    @classmethod
    def of(cls, run: Run) -> "Listed":
        steps = (
            run.result.steps if run.result.steps is not None else run.steps.last[0] if run.steps.last else 0
        )
        return cls(
            folder=run.folder,
            expert=run.expert,
            expert_folder=_expert_folder(run.folder),
            base_name=run.base_name,
            state=run.state,
            result=run.result,
            steps=steps,
            base=run.scores.base if run.scores else None,
            adapter=run.scores.adapter if run.scores else None,
            further=tuple((name, found.base, found.adapter) for name, found in scores.sets_of(run)[1:]),
            scored_by=scores.scored_by(run.scores),
            compared_by=scores.compared_by(run.scores),
            test_rows=run.scores.rows if run.scores else None,
            scores_of=scores.scores_of(run.scores),
            loss=tuple(thinned(run.steps.series("loss"), _SPARK_POINTS)),
            last_time=run.last_time,
            scored_at=run.scored_at,
        )

    @property
    def key(self) -> tuple[str, str]:
        return self.expert, str(self.expert_folder or "")


def _expert_folder(run: Path) -> Path | None:
    return run.resolve().parent.parent if run.parent.name == "weights" else None


def _with_folders_of_shared_names(runs: Sequence[Listed]) -> list[Listed]:
    """The expert's folder counts only where several experts share a name."""
    folders: dict[str, set[Path]] = {}
    for run in runs:
        folders.setdefault(run.expert, set()).update([run.expert_folder] if run.expert_folder else [])
    return [run if len(folders[run.expert]) > 1 else replace(run, expert_folder=None) for run in runs]


def index(
    runs: Sequence[Listed],
    home: Path,
    left_out: Sequence[str] = (),
    router: RouterRecord | None = None,
) -> str:
    """`home` is the folder of the page: links are relative to it, so that all of it can be moved."""
    runs = _with_folders_of_shared_names(runs)
    ordered = by_worth(runs)
    best = _best(ordered)
    chosen = {id(run) for run in best}
    others = [run for run in ordered if id(run) not in chosen]
    lead = f"{_count(len(best), 'expert')}, {_count(len(runs), 'run')} · {moment(time.time())}"
    sections = [
        f"<h1>Experts</h1>\n<p class='lead'>{lead}</p>",
        tiles(_totals(best, runs)),
        section("The best run of each expert", LEGEND + _table(best, home)),
        section("Router", _router(router) if router else ""),
        section("Other runs", _table(others, home)),
        section("Left out", table([""], [[sentence] for sentence in left_out])),
    ]
    return document("Experts", sections)


def _router(record: RouterRecord) -> str:
    """Which share of the prompts it sends where they belong; `expert-cli route` uses it."""
    rows = [[share.name, "its expert", *_shares(share)] for share in record.experts if share.rows]
    rows.append([record.none.name, "none", *_shares(record.none)])
    notes = [
        f"<p>{text(' and '.join(pair.experts))} have {pair.share:.0%} of their prompts in common: the router "
        "confuses them.</p>"
        for pair in record.overlaps
    ]
    head = ["prompts", "belong to", "number", "sent there"]
    return table(head, rows, frozenset({2, 3})) + "".join(notes)


def _shares(share: RoutedShare) -> tuple[str, str]:
    return whole(share.rows), f"{share.right / max(share.rows, 1):.1%}"


def by_worth(runs: Iterable[Listed]) -> list[Listed]:
    """By expert; within an expert the best score first, then the lowest loss, then the newest.

    Scores by different scorers, grammars or settings, or on different test rows, are not compared: those
    that were made as the newest one come first. Scores of other rows or of another adapter do not count.
    """
    listed = list(runs)
    scored = sorted(
        (run for run in listed if run.adapter and not run.scores_of), key=lambda run: run.scored_at
    )
    newest = {run.key: run.compared_by for run in scored}

    def rank(run: Listed) -> tuple[object, ...]:
        is_other = bool(run.scores_of) or run.compared_by != newest.get(run.key, run.compared_by)
        return run.key, is_other, -_accuracy(run), _loss(run), -run.last_time

    return [_with_difference(run, newest.get(run.key)) for run in sorted(listed, key=rank)]


def _with_difference(run: Listed, newest: scores.ComparedBy | None) -> Listed:
    if newest is None or run.adapter is None or run.scores_of:
        return run
    return replace(run, difference=run.compared_by.difference(newest))


def _best(ordered: Sequence[Listed]) -> list[Listed]:
    firsts: dict[tuple[str, str], Listed] = {}
    for run in ordered:
        firsts.setdefault(run.key, run)
    return list(firsts.values())


def _accuracy(run: Listed) -> float:
    known = run.adapter.accuracy if run.adapter and not run.scores_of else None
    return -1.0 if known is None else known


def _loss(run: Listed) -> float:
    found = run.result.eval_loss if run.result.eval_loss is not None else run.result.train_loss
    return float("inf") if found is None else found


def _totals(best: Sequence[Listed], runs: Sequence[Listed]) -> list[tuple[str, str]]:
    ranked = [run for run in best if not run.scores_of]
    gains = [gain for run in ranked if (gain := scores.gain(run.base, run.adapter)) is not None]
    found = [
        ("experts", whole(len(best))),
        ("runs finished", f"{sum(run.state == 'finished' for run in runs):,} of {len(runs):,}"),
        ("tokens trained on", whole(sum(run.result.tokens or 0 for run in runs))),
        ("time in training", duration(sum(run.result.seconds or 0.0 for run in runs))),
    ]
    if gains:
        found.insert(2, ("mean gain over the base", f"{sum(gains) / len(gains):+.1f} points"))
    return found


def _table(runs: Sequence[Listed], home: Path) -> str:
    """Without the columns that no run has anything for."""
    rows = [_row(run, home) for run in runs]
    used = [place for place in range(len(_HEAD)) if any(row[place] for row in rows)]
    numbers = frozenset(now for now, before in enumerate(used) if before in _NUMBERS)
    kept = [[row[place] for place in used] for row in rows]
    return table([_HEAD[place] for place in used], kept, numbers, "runs")


def _row(run: Listed, home: Path) -> list[object]:
    result = run.result
    return [
        _name(run, home),
        scores.interval_picture(run.base, run.adapter),
        scores.accuracy(run.base),
        Raw(f"<b>{scores.accuracy(run.adapter)}</b>") if run.adapter else "",
        Raw("".join(_further(*found) for found in run.further)),
        _scored_by(run),
        _spark(run),
        f"{result.eval_loss:.4f}" if result.eval_loss is not None else "",
        short(result.tokens_per_second) if result.tokens_per_second is not None else "",
        duration(result.seconds) if result.seconds is not None else "",
        _when(run.last_time) if run.last_time else "",
    ]


def _scored_by(run: Listed) -> str:
    if run.scores_of:
        return f"{run.scored_by}: {run.scores_of}"
    counted = "" if run.test_rows is None else f", {_count(run.test_rows, 'row')}"
    return f"{run.scored_by}{counted}{f' (not compared: {run.difference})' if run.difference else ''}"


def _further(name: str, base: AnyShare | None, adapter: AnyShare | None) -> str:
    sides = (("base", base), ("adapter", adapter))
    shown = ", ".join(f"{who} {scores.accuracy(side)}" for who, side in sides if side)
    return f"<small>{text(name)}: {shown}</small>"


def _when(time: float) -> Raw:
    """Date and time of day, between which a narrow column breaks."""
    parts = moment(time).removesuffix(" UTC").split(" ")
    return Raw(f"<time>{' '.join(f'<span>{part}</span>' for part in parts)}</time>")


def _name(run: Listed, home: Path) -> Raw:
    folder = run.folder.name
    words = [run.base_name, _count(run.steps, "step"), *([folder] if folder != run.base_name else [])]
    words += [f"in {run.expert_folder.name}"] if run.expert_folder else []
    link = escape(address(run.folder / "report.html", home))
    mood = state(run.state) if run.state != "finished" else ""
    return Raw(f'<a href="{link}">{text(run.expert)}</a> {mood}<small>{text(", ".join(words))}</small>')


def address(page: Path, home: Path) -> str:
    try:
        return quote(Path(os.path.relpath(page.resolve(), home.resolve())).as_posix())
    except ValueError:  # On Windows, from one drive to another.
        return page.resolve().as_uri()


def _spark(run: Listed) -> Raw:
    points = run.loss
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
