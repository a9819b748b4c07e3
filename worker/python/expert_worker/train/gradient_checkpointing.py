"""Gradient checkpointing on the plain path: whole layers through transformers, or attention only."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


def apply(model: Any, wanted: str) -> str:
    """Enables it and returns the mode in use: none, selective or full."""
    if wanted == "selective" and _attention_alone(model):
        return "selective"
    if wanted == "none":
        return "none"
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    return "full"


def _attention_alone(model: nn.Module) -> int:
    """The number of attention modules that are recomputed in the backward pass."""
    found = [module for module in model.modules() if type(module).__name__.endswith("Attention")]
    for module in found:
        module.forward = _again(module, module.forward)
    return len(found)


def _again(module: nn.Module, forward: Any) -> Any:
    def compute(*args: Any, **kwargs: Any) -> Any:
        if not module.training:
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return compute
