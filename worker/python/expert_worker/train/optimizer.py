"""Optimizers by their usual names. The settings reported are read from the optimizer that was made."""

import importlib
import math
from collections.abc import Sequence
from typing import Any, assert_never

import torch
from torch import nn

from expert_worker.errors import BadInput, Missing
from expert_worker.events import Events
from expert_worker.plan import Optimizer, OptimizerName

# Paging needs CUDA's unified memory; elsewhere the same update runs unpaged.
_UNPAGED: dict[OptimizerName, OptimizerName] = {
    "paged_adamw_32bit": "adamw_torch",
    "paged_adamw_8bit": "adamw_bnb_8bit",
}
# torch's names of AdamW's moments, and those of bitsandbytes, which it saves in a map with this key.
_MOMENTS = {"exp_avg": "state1", "exp_avg_sq": "state2"}
_WRAPPED = "__bnb_optimizer_quant_state__"


def build(recipe: Optimizer, trained: Sequence[nn.Parameter], events: Events) -> torch.optim.Optimizer:
    name = _name_here(recipe.name, trained)
    if name != recipe.name:
        events.warning(
            "optimizer-unpaged", f"{recipe.name} pages to CUDA's unified memory: {name} is used here"
        )
    optimizer = _make(name, recipe, list(trained))
    _report(optimizer, events)
    return optimizer


def skips_by_itself(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step with its attribute `found_inf` at 1 changes nothing, which the device decides. torch's
    fused optimizers can; the others take what they are given."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def state_bytes(name: OptimizerName, trained: Sequence[nn.Parameter]) -> int:
    """What the first step allocates on the parameters' device."""
    name = _name_here(name, trained)
    return sum(_bytes_of_state(name, parameter) for parameter in trained)


def _bytes_of_state(name: OptimizerName, parameter: nn.Parameter) -> int:
    count = parameter.numel()
    match name:
        case "adamw_torch" | "adamw_torch_fused":
            return 8 * count
        case "adamw_bnb_8bit":
            # A byte for each moment and the scale of each block, where bitsandbytes keeps 8 bits.
            return 2 * (count + 4 * math.ceil(count / 256)) if count >= 4096 else 8 * count
        case "paged_adamw_8bit" | "paged_adamw_32bit":
            return 0  # In unified memory, of which the device holds what it has room for.
        case "adafactor":
            # Of matrices, the means of rows and of columns.
            return 4 * (sum(parameter.shape) if parameter.ndim == 2 else count)
        case "muon":
            return 4 * count
        case "sgd":
            return 0
        case _:
            assert_never(name)


def _name_here(name: OptimizerName, trained: Sequence[nn.Parameter]) -> OptimizerName:
    return _UNPAGED.get(name, name) if trained[0].device.type != "cuda" else name


def _make(name: OptimizerName, recipe: Optimizer, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = recipe.learning_rate, recipe.weight_decay
    adam: dict[str, Any] = {
        "lr": rate,
        "betas": (recipe.beta1, recipe.beta2),
        "eps": recipe.epsilon,
        "weight_decay": decay,
    }
    match name:
        case "adamw_torch":
            return torch.optim.AdamW(trained, **adam)
        case "adamw_torch_fused":
            return torch.optim.AdamW(trained, **adam, fused=True)
        case "sgd":
            return torch.optim.SGD(trained, lr=rate, weight_decay=decay)
        case "adafactor":
            return _adafactor(trained, rate, decay)
        case "muon":
            return _muon(trained, rate, decay)
        case "adamw_bnb_8bit" | "paged_adamw_8bit" | "paged_adamw_32bit":
            return _bitsandbytes(name, trained, adam)
        case _:
            assert_never(name)


def _adafactor(trained: list[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    from transformers.optimization import Adafactor

    # Our schedule sets the rate, so Adafactor's is off.
    made: torch.optim.Optimizer = Adafactor(  # type: ignore[no-untyped-call]
        trained, lr=rate, weight_decay=decay, scale_parameter=False, relative_step=False, warmup_init=False
    )
    return made


def _muon(trained: list[nn.Parameter], rate: float, decay: float) -> torch.optim.Optimizer:
    kind = getattr(torch.optim, "Muon", None)
    if kind is None:
        raise Missing("This torch has no Muon optimizer", hint="Update torch, or use adamw_torch.")
    if any(parameter.ndim != 2 for parameter in trained):
        raise BadInput(
            "Muon trains matrices only, and this adapter has vectors",
            hint="Use adamw_torch, or an adapter without magnitudes (lora instead of dora).",
            code="muon-needs-matrices",
        )
    made: torch.optim.Optimizer = kind(trained, lr=rate, weight_decay=decay)
    return made


def _bitsandbytes(name: str, trained: list[nn.Parameter], adam: dict[str, Any]) -> torch.optim.Optimizer:
    optim = importlib.import_module("bitsandbytes.optim")
    kinds: dict[str, Any] = {
        "adamw_bnb_8bit": optim.AdamW8bit,
        "paged_adamw_8bit": optim.PagedAdamW8bit,
        "paged_adamw_32bit": optim.PagedAdamW32bit,
    }
    made: torch.optim.Optimizer = kinds[name](trained, **adam)
    return made


def _report(optimizer: torch.optim.Optimizer, events: Events) -> None:
    group = optimizer.param_groups[0]
    shown = ("lr", "betas", "eps", "weight_decay", "fused", "momentum")
    settings = {key: _plain(group[key]) for key in shown if group.get(key) is not None}
    events.applied(
        "optimizer", {"class": type(optimizer).__name__, **settings}, f"Optimizer {type(optimizer).__name__}"
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def own_form(saved: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The saved state as this optimizer reads it. `paged_adamw_32bit` is bitsandbytes' AdamW on CUDA and
    torch's elsewhere: the same two moments, by other names."""
    states = {key: {**state, **state.get(_WRAPPED, {})} for key, state in saved["state"].items()}
    by_torch = isinstance(optimizer, torch.optim.AdamW)
    names = {theirs: ours for ours, theirs in _MOMENTS.items()} if by_torch else _MOMENTS
    if not (by_torch or type(optimizer).__module__.startswith("bitsandbytes.")):
        return saved
    if not all(name in state for state in states.values() for name in names):
        return saved
    step = (lambda count: torch.tensor(float(count))) if by_torch else int
    return {
        "state": {
            key: {"step": step(state["step"]), **{ours: state[theirs] for theirs, ours in names.items()}}
            for key, state in states.items()
        },
        "param_groups": [
            {key: theirs.get(key, value) for key, value in ours.items()}
            for theirs, ours in zip(
                saved["param_groups"], optimizer.state_dict()["param_groups"], strict=True
            )
        ],
    }


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
