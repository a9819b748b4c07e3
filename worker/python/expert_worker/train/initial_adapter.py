"""An adapter whose weights training starts from, in the place of new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expert_worker.adapter import CONFIG, WEIGHTS, check_adapter
from expert_worker.base import locate
from expert_worker.base.adapter import replace_weights
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize.plan_digest import digest_of_files
from expert_worker.run_record.expert import check_base_of

_OTHER_BASE = "Train on the base that it was trained on, or start with a new adapter: initial_adapter null."


def check(plan: Plan, events: Events) -> None:
    """Before the base is loaded: the files are whole, and were trained on these weights."""
    folder, paths = _folder(plan), plan.machine.paths
    if folder is not None:
        check_adapter(folder, named_by="initial_adapter")
        base = locate(plan.recipe.base, paths, events)
        check_base_of(folder, base, events, _OTHER_BASE, Path(paths.home))


def load(plan: Plan, model: Any, events: Events) -> None:
    folder = _folder(plan)
    if folder is not None:
        _demand_planned(plan, folder)
        replace_weights(model, folder)
        name = plan.recipe.adapter.initial
        events.applied("adapter.initial", name, f"Training starts from the adapter in {name}")


def _demand_planned(plan: Plan, folder: Path) -> None:
    """Another run may have finished there since the plan, whose digest the run records."""
    name = plan.recipe.adapter.initial
    planned = plan.inputs.data.get(name) if plan.inputs is not None and name is not None else None
    if planned is not None and planned != digest_of_files([folder / CONFIG, folder / WEIGHTS]):
        raise BadInput(
            f"The adapter in {name} has changed since this training was planned",
            hint="Repeat the command: it starts from the adapter as it is now.",
            code="data-changed",
        )


def _folder(plan: Plan) -> Path | None:
    found = plan.machine.paths.initial_adapter
    return None if found is None else Path(found)
