"""How it was computed, and everything that was decided."""

import json
from typing import Any

from expert_worker.report.parts import fold, pre, section, table
from expert_worker.report.read import Run


def machine_and_plan(run: Run) -> str:
    folds = [
        ("Settings in force, as read back", run.record.get("applied") or run.applied),
        ("Recipe", run.recipe),
        ("Machine half of the plan", run.plan.get("machine")),
        ("Packages", run.record.get("packages")),
        ("Data files", run.record.get("data")),
        ("Base model's files", run.record.get("base")),
    ]
    made = "".join(fold(title, pre(_json(content))) for title, content in folds if content)
    tables = table(["recipe", ""], _settings(run.recipe)) + table(
        ["machine", ""], [*_machine(run.record.get("machine", {})), *_origin(run)]
    )
    body = f'<div class="charts">{tables}</div>' if tables else ""
    return section("Recipe and machine", body + (f'<div class="box rest">{made}</div>' if made else ""))


def _settings(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    """What a reader asks for first; all of it is in the folds."""
    adapter, optimizer = recipe.get("adapter", {}), recipe.get("optimizer", {})
    batch, schedule = recipe.get("batch", {}), recipe.get("schedule", {})
    length, warmup = schedule.get("duration", {}), schedule.get("warmup", {})
    rows = [
        ("Adapter", _words(adapter, "kind", "rank {rank}", "alpha {alpha:g}", "dropout {dropout:g}")),
        ("Modules", ", ".join(adapter.get("target_modules") or [])),
        ("Optimizer", _words(optimizer, "name", "rate {learning_rate:g}", "decay {weight_decay:g}")),
        (
            "Schedule",
            ", ".join(filter(None, [schedule.get("kind"), _amount(warmup, "warm-up"), _amount(length)])),
        ),
        ("Batch", _words(batch, "{rows_per_step} rows a step", "{max_seq_length} tokens at most a row")),
        ("Packing", {True: "yes", False: "no"}.get(batch.get("packing", None), "")),
        ("Precision", str(recipe.get("precision", {}).get("compute", ""))),
        ("Learns from", str(recipe.get("data", {}).get("train_on", ""))),
        ("Seed", str(recipe.get("seed", ""))),
    ]
    return [(name, value) for name, value in rows if value]


def _words(section: dict[str, Any], *forms: str) -> str:
    """A plain word is a key whose value is told; a form is filled in, where its key has a value."""
    told = []
    for form in forms:
        key = form.split("{")[1].split("}")[0].split(":")[0] if "{" in form else form
        if section.get(key) is not None:
            told.append(form.format(**section) if "{" in form else str(section[key]))
    return ", ".join(told)


def _amount(amount: dict[str, Any], what: str = "") -> str:
    value, unit = amount.get("value"), amount.get("unit")
    if not value:
        return ""
    told = f"{value:.0%}" if unit == "ratio" else f"{value:g} {unit}"
    return f"{told} {what}".strip()


def _machine(machine: dict[str, Any]) -> list[tuple[str, str]]:
    if not machine:
        return []
    device = machine.get("device", {})
    system = [machine.get(name, "") for name in ("os", "architecture")]
    return [
        ("Device", f"{device.get('name', device.get('kind', '?'))}, {machine.get('dtype', '?')}"),
        ("Processor", f"{machine.get('cpu_capability', '?')}, {machine.get('threads', '?')} threads"),
        (
            "System",
            f"{' '.join(system)}, Python {machine.get('python', '?')}",
        ),
    ]


def _origin(run: Run) -> list[tuple[str, str]]:
    rows = [
        ("Recipe digest", run.record.get("recipe_digest") or run.plan.get("recipe_digest")),
        ("Token cache", run.record.get("cache_key")),
        ("Commit", run.record.get("git_commit")),
        ("Attempts", str(run.attempts) if run.attempts > 1 else None),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False)
