"""The page: sections in reading order, each empty where the run has nothing to say about it."""

from collections.abc import Callable
from html import escape

from expert_worker.report import data, evaluation, machine
from expert_worker.report.curves import curves
from expert_worker.report.happened import happened
from expert_worker.report.numbers import duration, moment, short, size, whole
from expert_worker.report.parts import document, state, tiles
from expert_worker.report.read import Run
from expert_worker.report.verdict import verdict


def page(run: Run) -> str:
    sections = [
        _head(run),
        verdict(run),
        tiles(_numbers(run)),
        curves(run),
        evaluation.scores(run),
        evaluation.examples(run),
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
    return f"<h1>{escape(run.expert)}{state(run.state)}</h1>\n<p class='lead'>{escape(lead)}</p>"


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
        ("tokens", result.tokens, short),
        ("tokens per second", result.tokens_per_second, short),
        ("peak memory", result.peak_memory_bytes, size),
        ("time in training", result.seconds, duration),
    ]
    return [(label, show(value)) for label, value, show in known if value is not None]


def _first(one: float | None, other: float | None) -> float | None:
    return one if one is not None else other
