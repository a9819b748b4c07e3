"""The adapter folded into the base's weights: a model that needs neither peft nor the adapter."""

import shutil
from pathlib import Path
from typing import Any

import torch

from expert_worker.adapter import KINDS
from expert_worker.base import load_base
from expert_worker.base.adapter import load_adapter
from expert_worker.checkpoint.refusal import human
from expert_worker.errors import BadInput, Storage
from expert_worker.events import Events
from expert_worker.export.plain import copy_companions
from expert_worker.export.probe import demand_equal, difference, logits
from expert_worker.plan import Plan

_SLOW = 600.0


def fill_with_merged(plan: Plan, events: Events, adapter: Path, folder: Path) -> float:
    if KINDS[plan.recipe.adapter.kind].is_soft_prompt:
        raise BadInput(
            "A soft prompt cannot be merged: it is not part of the weights",
            hint="Export it with --adapter.",
            code="cannot-merge",
        )
    model = _with_adapter(_unquantized(plan, events), events, adapter)
    _demand_room(model, folder)
    spoken = logits(model)
    events.stage("merge", quiet_budget=_SLOW)
    merged = model.merge_and_unload(safe_merge=True)
    dtype = merged.dtype
    events.stage("write", quiet_budget=_SLOW, detail=str(folder.name))
    merged.save_pretrained(str(folder), safe_serialization=True)
    del model, merged
    copy_companions(plan, events, adapter, folder)
    (folder / "README.md").unlink(missing_ok=True)
    events.stage("compare logits", quiet_budget=_SLOW)
    found = difference(spoken, logits(_read_back(folder, dtype)))
    demand_equal(found, dtype, "The merged model")
    return found


def _unquantized(plan: Plan, events: Events) -> Plan:
    """Weights of 4 or 8 bits cannot take an adapter in: it goes into the base's own, which they came from."""
    base = plan.recipe.base
    if base.quantization not in ("int4", "int8"):
        return plan
    events.warning(
        "merged-unquantized",
        f"The adapter was trained on a base in {base.quantization}; it goes into the unquantized weights",
        "Answers may differ a little from those of the adapter on the quantized base.",
    )
    recipe = plan.recipe.model_copy(update={"base": base.model_copy(update={"quantization": "none"})})
    return plan.model_copy(update={"recipe": recipe})


def _with_adapter(plan: Plan, events: Events, adapter: Path) -> Any:
    return load_adapter(load_base(plan, events), adapter)


def _demand_room(model: Any, folder: Path) -> None:
    needed = sum(p.numel() * p.element_size() for p in model.parameters())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Storage(
            f"The merged model needs {human(needed)}; {human(free)} are free at {folder.parent}",
            hint="Free some space, or name a folder on another disk.",
        )


def _read_back(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype, local_files_only=True)
    return model.eval()
