"""How it was computed, and everything that was decided."""

import json
from typing import Any

from expert_worker.report.parts import fold, section, table
from expert_worker.report.read import Run


def machine_and_plan(run: Run) -> str:
    facts = table(["", ""], [*_machine(run.record.get("machine", {})), *_origin(run)])
    folds = [
        ("Settings in force, as read back", run.record.get("applied") or run.applied),
        ("Recipe", run.recipe),
        ("Machine half of the plan", run.plan.get("machine")),
        ("Packages", run.record.get("packages")),
        ("Data files", run.record.get("data")),
        ("Base model's files", run.record.get("base")),
    ]
    made = "".join(fold(title, _json(content)) for title, content in folds if content)
    return section(
        "Machine and plan", facts + (f'<div class="box" style="margin-top:12px">{made}</div>' if made else "")
    )


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
