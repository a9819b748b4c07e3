"""How it was computed, and everything that was decided."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from expert_worker.recorded import Device, Duration, FileDigest, Recipe, RunMachine, Warmup
from expert_worker.report.html import fold, pre, section, table
from expert_worker.report.read import Run

_LONGEST = 200_000
_MOST_MODULES = 1000


def machine_and_plan(run: Run) -> str:
    record, plan = run.record, run.plan
    folds = [
        ("Settings in force, as read back", record.applied or run.applied),
        ("Recipe", run.recipe.as_found),
        ("Machine half of the plan", plan.machine.as_found if plan.machine else None),
        ("Packages", record.packages),
        ("Data files", _as_found(record.data)),
        ("Base model's files", _as_found(record.base)),
    ]
    made = "".join(fold(title, pre(_json(content))) for title, content in folds if content)
    tables = table(["recipe", ""], _settings(run.recipe)) + table(
        ["machine", ""], [*_machine(run.record.machine), *_origin(run)]
    )
    body = f'<div class="charts">{tables}</div>' if tables else ""
    return section("Recipe and machine", body + (f'<div class="box rest">{made}</div>' if made else ""))


def _as_found(files: Mapping[str, FileDigest | None]) -> dict[str, Any]:
    return {name: file and file.as_found for name, file in files.items()}


def _settings(recipe: Recipe) -> list[tuple[str, str]]:
    """What a reader asks for first; all of it is in the folds."""
    adapter, optimizer, batch, schedule = recipe.adapter, recipe.optimizer, recipe.batch, recipe.schedule
    packing = "" if batch.packing is None else "yes" if batch.packing else "no"
    rows = [
        (
            "Adapter",
            _joined(
                adapter.kind or "adapter",
                _form("rank {:,}", adapter.rank),
                _form("alpha {:g}", adapter.alpha),
                _form("dropout {:g}", adapter.dropout),
            ),
        ),
        ("Modules", ", ".join(adapter.target_modules[:_MOST_MODULES])),
        (
            "Optimizer",
            _joined(
                optimizer.name or "",
                _form("rate {:g}", optimizer.learning_rate),
                _form("decay {:g}", optimizer.weight_decay),
            ),
        ),
        (
            "Schedule",
            _joined(schedule.kind or "", _amount(schedule.warmup, "warm-up"), _amount(schedule.duration)),
        ),
        (
            "Batch",
            _joined(
                _form("{:,} rows per step", batch.rows_per_step),
                _form("at most {:,} tokens per row", batch.max_seq_length),
            ),
        ),
        ("Packing", packing),
        ("Precision", recipe.precision.compute or ""),
        ("Learns from", recipe.data.train_on or ""),
        ("Seed", "" if recipe.seed is None else str(recipe.seed)),
    ]
    return [(name, value) for name, value in rows if value]


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _form(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def _amount(amount: Duration | Warmup, what: str = "") -> str:
    if not amount.value:
        return ""
    words = f"{amount.value:.0%}" if amount.unit == "ratio" else f"{amount.value:g} {amount.unit or ''}"
    return f"{words} {what}".strip()


def _machine(machine: RunMachine | None) -> Iterable[tuple[str, str]]:
    if machine is None:
        return
    device = machine.device or Device()
    yield "Device", f"{device.name or device.kind or '?'}, {machine.dtype or '?'}"
    threads = "?" if machine.threads is None else f"{machine.threads:,}"
    yield "Processor", f"{machine.cpu_capability or '?'}, {threads} threads"
    yield "System", f"{machine.os or ''} {machine.architecture or ''}, Python {machine.python or '?'}"


def _origin(run: Run) -> list[tuple[str, str]]:
    rows = [
        ("Recipe digest", run.record.recipe_digest or run.plan.recipe_digest),
        ("Token cache", run.record.cache_key),
        ("Encoder", _slow_encoder(run)),
        ("Commit", run.record.git_commit),
        ("Attempts", f"{run.attempts:,}" if run.attempts > 1 else None),
    ]
    return [(name, value) for name, value in rows if value]


def _slow_encoder(run: Run) -> str | None:
    slow = run.result.slow_encoder
    if slow is None:
        return None
    return f"Hugging Face tokenizers: {slow.words}; the fast encoder is not used: {slow.reason}"


def _json(content: Any) -> str:
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} characters more"
