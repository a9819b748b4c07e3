"""The page: sections in reading order, each empty where the run has nothing to say about it."""

from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import Any

from expert_worker.report import data, evaluation, machine
from expert_worker.report.charts import Line, curve, short
from expert_worker.report.parts import Raw, section, table, tiles
from expert_worker.report.read import Run

# The page shows text that models wrote: whatever it says, it may load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_ROUTINE = 20


def page(run: Run) -> str:
    name = str(run.recipe.get("expert") or run.folder.name)
    sections = [
        _head(run, name),
        tiles(_numbers(run)),
        section("Curves", _curves(run)),
        evaluation.scores(run),
        data.rows_and_tokens(run),
        evaluation.examples(run),
        section("What happened", _happened(run)),
        machine.machine_and_plan(run),
    ]
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body><main>\n{chr(10).join(filter(None, sections))}\n</main></body>\n</html>\n"
    )


def _head(run: Run, name: str) -> str:
    adapter, base = run.recipe.get("adapter", {}), run.recipe.get("base", {})
    rank = f", rank {adapter['rank']}" if adapter.get("rank") else ""
    lead = f"{adapter.get('kind', 'adapter')}{rank} on {base.get('name', 'an unknown base')}"
    if base.get("quantization", "none") != "none":
        lead += f" in {base['quantization']}"
    if run.told_at:
        lead += f" · {_moment(run.told_at)}"
    return f"<h1>{escape(name)}{_state(run)}</h1>\n<p class='lead'>{escape(lead)}</p>"


def _state(run: Run) -> str:
    ending = run.ending
    if ending is None and not run.complete:
        return '<span class="state warn">not finished</span>'
    if ending is None or ending["type"] == "finished":
        return '<span class="state good">finished</span>'
    word = "stopped" if ending.get("exit") in {130, 143} else "failed"
    return f'<span class="state {"warn" if word == "stopped" else "bad"}">{word}</span>'


def _numbers(run: Run) -> list[tuple[str, str]]:
    result, last = run.result, (run.steps[-1] if run.steps else {})
    found: list[tuple[str, str]] = []

    def add(label: str, value: Any, show: Any = short) -> None:
        if isinstance(value, int | float):
            found.append((label, show(value)))

    add("training loss", result.get("train_loss", last.get("loss")))
    add("validation loss", result.get("eval_loss"))
    found += evaluation.headline(run)
    add("steps", result.get("steps", last.get("step")), lambda v: f"{v:,}")
    add("tokens", result.get("tokens"))
    add("tokens a second", result.get("tokens_per_second"))
    add("peak memory", result.get("peak_memory_bytes"), lambda v: f"{v / 1e9:.2f} GB")
    add("duration", result.get("seconds"), duration)
    return found


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


def _curves(run: Run) -> str:
    evaluated = [
        (float(e["step"]), e["metrics"].get("eval_loss", e["metrics"].get("loss"))) for e in run.evaluations
    ]
    speed = Line("tokens a second", _series(run, "tokens_per_second"))
    charts = [
        curve(
            "Loss",
            [
                Line("training", _series(run, "loss")),
                Line("validation", [(x, y) for x, y in evaluated if y is not None], dots=True),
            ],
        ),
        curve("Accuracy on validation", [Line("accuracy", _accuracy(run), dots=True)]),
        curve("Learning rate", [Line("learning rate", _series(run, "lr"))], from_zero=True),
        curve("Tokens a second", [speed], from_zero=True),
        curve("Memory, GB", [Line("allocated", _series(run, "memory_allocated", 1e9))], from_zero=True),
        curve("Gradient norm", [Line("norm", _series(run, "grad_norm"))], from_zero=True),
        curve("GPU utilization, %", [Line("GPU", _series(run, "gpu_util"))], from_zero=True),
    ]
    body = "".join(charts)
    return f'<div class="charts">{body}</div>' if body else ""


def _series(run: Run, name: str, unit: float = 1.0) -> list[tuple[float, float]]:
    return [(float(s["step"]), s[name] / unit) for s in run.steps if isinstance(s.get(name), int | float)]


def _accuracy(run: Run) -> list[tuple[float, float]]:
    return [
        (float(e["step"]), e["metrics"]["accuracy"]) for e in run.evaluations if "accuracy" in e["metrics"]
    ]


def _happened(run: Run) -> str:
    rows: list[tuple[object, str, str]] = [(_time(n), _kind(n), _text(n)) for n in _worth_telling(run.notes)]
    if run.ending and run.ending["type"] == "failed":
        hint = f" {run.ending['hint']}" if run.ending.get("hint") else ""
        rows.append((_time(run.ending), "failed", f"{run.ending['message']}{hint}"))
    choice = run.record.get("best")
    if choice:
        rows.append(("", "chosen", f"final/ is step {choice['step']}: {choice['reason']}"))
    return table(["", "", ""], rows) if rows else ""


def _worth_telling(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All that went wrong, and of the checkpoints the last ones."""
    routine = [place for place, note in enumerate(notes) if note["type"] in {"checkpoint", "best"}]
    left_out = set(routine[:-_ROUTINE])
    return [note for place, note in enumerate(notes) if place not in left_out]


def _kind(note: dict[str, Any]) -> str:
    return str(note["type"] if note["type"] != "recovered" else note.get("kind", "recovered")).replace(
        "_", " "
    )


def _text(note: dict[str, Any]) -> str:
    if note["type"] == "checkpoint":
        return f"step {note['step']}, {note['bytes'] / 1e6:.1f} MB in {note['seconds']:.2f} s"
    if note["type"] == "best":
        return f"step {note['step']}: {note['metric']} {note['value']:.5g}"
    text = str(note.get("detail") or note.get("message") or "")
    return f"{text} {note['hint']}" if note.get("hint") else text


def _time(event: dict[str, Any]) -> Raw:
    return Raw(f"<time>{datetime.fromtimestamp(event['time'], UTC):%m-%d %H:%M:%S}</time>")


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
