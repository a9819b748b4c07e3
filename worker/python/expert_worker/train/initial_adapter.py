"""An adapter whose weights training starts from, in the place of new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expert_worker.adapter import check_adapter
from expert_worker.base import locate
from expert_worker.base.adapter import replace_weights
from expert_worker.events import Events
from expert_worker.plan import Plan
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
        replace_weights(model, folder)
        name = plan.recipe.adapter.initial
        events.applied("adapter.initial", name, f"Training starts from the adapter in {name}")


def _folder(plan: Plan) -> Path | None:
    found = plan.machine.paths.initial_adapter
    return None if found is None else Path(found)
