"""The page: sections in reading order, each empty where the run has nothing to say about it."""

from html import escape

from expert_worker.report import data, evaluation, machine
from expert_worker.report.curves import curves
from expert_worker.report.happened import happened
from expert_worker.report.numbers import duration, gigabytes, moment, short, whole
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
    adapter, base = run.recipe.get("adapter", {}), run.recipe.get("base", {})
    rank = f", rank {adapter['rank']}" if adapter.get("rank") else ""
    lead = f"{adapter.get('kind', 'adapter')}{rank} on {base.get('name', 'an unknown base')}"
    if base.get("quantization", "none") != "none":
        lead += f" in {base['quantization']}"
    if run.told_at:
        lead += f" · {moment(run.told_at)}"
    return f"<h1>{escape(run.expert)}{state(run.state)}</h1>\n<p class='lead'>{escape(lead)}</p>"


def _numbers(run: Run) -> list[tuple[str, str]]:
    result, last = run.result, (run.steps[-1] if run.steps else {})
    known = [
        ("training loss", result.get("train_loss", last.get("loss")), short),
        ("validation loss", result.get("eval_loss"), short),
        ("steps", result.get("steps", last.get("step")), whole),
        ("tokens", result.get("tokens"), short),
        ("tokens a second", result.get("tokens_per_second"), short),
        ("peak memory", result.get("peak_memory_bytes"), gigabytes),
        ("duration", result.get("seconds"), duration),
    ]
    return [(label, show(value)) for label, value, show in known if isinstance(value, int | float)]
