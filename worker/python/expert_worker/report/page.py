"""The page: sections in reading order, each empty where the run has nothing to say about it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from expert_worker.events import models as events
from expert_worker.events.models import ACCURACY, EVAL_LOSS
from expert_worker.report import data, machine, scores
from expert_worker.report.charts import Line, curve
from expert_worker.report.classes import class_tables
from expert_worker.report.html import Raw, charts, document, section, state, table, text, tiles
from expert_worker.report.numbers import clock, duration, moment, short, size, whole
from expert_worker.report.read import Note, Resumed, Run
from expert_worker.report.series import Points

_OLD_EVAL_LOSS = "loss"
_CALM = 10
_SPANS = 50
"""How many means a long curve has beside one another."""
_ENOUGH = 3 * _CALM
_FELT = 1.0
_GIB = 2.0**30
_LONGEST = 4000


def page(run: Run) -> str:
    sections = [
        _head(run),
        scores.verdict(run),
        tiles(_numbers(run)),
        curves(run),
        class_tables(run),
        scores.score_tables(run),
        scores.samples(run),
        scores.examples(run),
        data.rows_and_tokens(run),
        happened(run),
        machine.machine_and_plan(run),
    ]
    return document(run.expert, sections)


def _head(run: Run) -> str:
    adapter, base = run.recipe.adapter, run.recipe.base
    rank = f", rank {adapter.rank}" if adapter.rank else ""
    lead = f"{adapter.kind or 'adapter'}{rank} on {run.base_name}"
    if base.quantization not in (None, "none"):
        lead += f" in {base.quantization}"
    if run.last_time:
        lead += f" · {moment(run.last_time)}"
    about = run.plan.description or ""
    purpose = f"<p class='about'>{text(about[:_LONGEST])}</p>\n" if about else ""
    return f"<h1>{escape(run.expert)}{state(run.state)}</h1>\n{purpose}<p class='lead'>{escape(lead)}</p>"


def _numbers(run: Run) -> list[tuple[str, str]]:
    result, (step, loss) = run.result, run.steps.last or (None, None)
    known: list[tuple[str, float | None, Callable[[float], str]]] = [
        (
            "training loss, mean" if result.train_loss is not None else "training loss",
            _first(result.train_loss, loss),
            short,
        ),
        ("validation loss", result.eval_loss, short),
        ("steps", _first(result.steps, step), whole),
        ("tokens", result.tokens, whole),
        ("tokens per second", result.tokens_per_second, short),
        ("peak memory", result.peak_memory_bytes, size),
        ("time in training, validation and saving", result.seconds, duration),
        ("time in scoring", run.scores.seconds if run.scores else None, duration),
    ]
    return [(label, show(value)) for label, value, show in known if value is not None]


def _first(one: float | None, other: float | None) -> float | None:
    return one if one is not None else other


def curves(run: Run) -> str:
    series = run.steps.series
    resident = run.plan.machine is not None and run.plan.machine.device.kind == "cpu"
    memory = [
        Line("resident" if resident else "allocated", series("memory_allocated", _GIB)),
        Line("peak" if resident else "reserved", series("memory_reserved", _GIB), hue=1),
    ]
    tokens = [
        Line("all", series("tokens"), hue=1),
        Line("learnt from", series("supervised_tokens")),
    ]
    drawn = [
        curve("Loss", "nats per token", [*_loss(run), Line("validation", _evaluated(run), hue=1, dots=True)]),
        curve("Accuracy on validation", "share right", [Line("accuracy", _accuracy(run), dots=True)]),
        curve("Learning rate", "", [Line("learning rate", series("lr"))], from_zero=True),
        curve("Throughput", "tokens/s", [Line("tokens/s", series("tokens_per_second"))], from_zero=True),
        curve("Tokens", "tokens per step", tokens, from_zero=True),
        curve("Memory", "GiB", memory, from_zero=True),
        curve("Gradient", "norm", [Line("norm", series("grad_norm"))], from_zero=True),
        curve("GPU", "% busy", [Line("busy", series("gpu_util"))], from_zero=True),
        curve("Waiting for data", "% of a step", [Line("waiting", _waiting(run))], from_zero=True),
    ]
    return section("Curves", charts(drawn))


def _loss(run: Run) -> list[Line]:
    """Noisy as single steps are, with their mean over it where there are enough of them."""
    every = run.steps.series("loss")
    if len(every) < _ENOUGH:
        return [Line("training", every)]
    span = max(_CALM, len(run.steps) // _SPANS)
    return [Line("training", every, faint=True), Line(f"mean of {span}", run.steps.mean_loss(span))]


def _waiting(run: Run) -> Points:
    """Nothing where it is never felt."""
    shares = run.steps.series("waiting")
    return shares if sum(share for _, share in shares) >= _FELT * len(shares) else []


def _evaluated(run: Run) -> Points:
    losses = ((e.step, e.metrics.get(EVAL_LOSS, e.metrics.get(_OLD_EVAL_LOSS))) for e in run.evaluations)
    return [(float(step), loss) for step, loss in losses if loss is not None and abs(loss) < 1e100]


def _accuracy(run: Run) -> Points:
    shares = ((e.step, e.metrics.get(ACCURACY)) for e in run.evaluations)
    return [(float(step), share) for step, share in shares if share is not None and abs(share) < 1e100]


def happened(run: Run) -> str:
    notes = sorted([*run.notes, *run.checkpoints], key=lambda noted: noted.time)
    rows: list[tuple[object, object, object]] = [
        (_time(noted.time), _kind(noted.what), _words(noted.what)) for noted in notes
    ]
    earlier = run.notes_in_all - len(run.notes)
    if earlier > 0:
        rows.insert(0, ("", "earlier", f"{whole(earlier)} more warnings and recoveries are in events.jsonl"))
    if isinstance(run.ending, events.Failed):
        ending = _with_hint(run.ending.message, run.ending.hint)
        rows.append((_time(run.ended_at), run.ended_as, ending))
    choice = run.record.best
    if choice and choice.step is not None:
        rows.append(("", "chosen", f"final/ is step {choice.step}: {choice.reason or ''}"))
    rows += [("", "left out", _left_out(name, count)) for name, count in sorted(run.left_out.items())]
    if run.unrecorded:
        lacks = f"{whole(run.unrecorded)} step{'' if run.unrecorded == 1 else 's'}"
        rows.append(("", "left out", f"events.jsonl ends with step {run.reached}: the curves lack {lacks}"))
    return section("What happened", table(["", "", ""], rows, kind="log"))


def _left_out(name: str, count: int) -> str:
    what = "line" if name.endswith(".jsonl") else "value"
    return f"{name}: {whole(count)} {what}{'' if count == 1 else 's'} could not be read and cannot be shown"


def _kind(note: Note) -> str:
    match note:
        case events.Recovered():
            return note.kind.replace("_", " ")
        case Resumed():
            return "resumed"
    return note.type


def _words(note: Note) -> object:
    match note:
        case events.Checkpoint():
            return f"step {note.step}, {size(note.bytes)} in {_spent(note.seconds)}"
        case events.Best():
            return f"step {note.step}: {note.metric} {note.value:.5g}"
        case events.Recovered():
            return _with_hint(note.detail, None)
        case Resumed():
            return f"Attempt {note.attempt} resumed from step {note.step}."
    return _with_hint(note.message, note.hint)


def _spent(seconds: float) -> str:
    return duration(seconds) if seconds >= 0.1 else "less than 0.1s"


def _with_hint(message: str, hint: str | None) -> Raw:
    shown = text(message[:_LONGEST])
    return Raw(f"{shown}<small>{text(hint[:_LONGEST])}</small>" if hint else shown)


def _time(time: float) -> Raw:
    return Raw(f"<time>{clock(time)}</time>")
