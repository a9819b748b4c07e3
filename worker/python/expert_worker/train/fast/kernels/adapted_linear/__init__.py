"""A linear layer with its adapter: one autograd function, or peft's own module."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ..registry import Kernel, Operation
from .dora import FUSED_DORA
from .grouped import GroupedLora
from .layer import FusedLayer
from .lora import FUSED_LORA, FusedLora
from .together import together

__all__ = ["ADAPTED_LINEAR", "FusedLayer", "FusedLora", "GroupedLora", "Projection", "together"]

Projection = Callable[[Tensor], Tensor]


def _module(module: nn.Module) -> Projection:
    return module


# Chosen for each layer, as only some of a model's layers may have an adapter.
ADAPTED_LINEAR: Operation[nn.Module, Callable[[nn.Module], Projection]] = Operation(
    "adapted_linear", [FUSED_LORA, FUSED_DORA, Kernel("module", _module)]
)
