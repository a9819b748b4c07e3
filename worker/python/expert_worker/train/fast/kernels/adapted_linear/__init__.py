"""A linear layer with its adapter: one autograd function, or peft's own module."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ..registry import Kernel, Operation
from .copies import Copies
from .dora import FUSED_DORA
from .fixed import FixedLayers
from .grouped import GroupedLora
from .grouped_on_card import GroupedOnCard
from .heads import ADAPTED_HEADS, AdaptedHeads
from .layer import FusedLayer, LayerKernels
from .lora import FUSED_LORA, FusedLora
from .mlp import ADAPTED_MLP, BY_LAYER, AdaptedMlp
from .on_card import LORA_ON_CARD, CardGroup, join
from .together import together

__all__ = [
    "ADAPTED_HEADS",
    "ADAPTED_LINEAR",
    "ADAPTED_MLP",
    "BY_LAYER",
    "AdaptedHeads",
    "AdaptedMlp",
    "CardGroup",
    "Copies",
    "FixedLayers",
    "FusedLayer",
    "FusedLora",
    "GroupedLora",
    "GroupedOnCard",
    "LayerKernels",
    "Projection",
    "join",
    "together",
]

Projection = Callable[[Tensor], Tensor]


def _module(module: nn.Module, _kernels: LayerKernels) -> Projection:
    return module


# Chosen for each layer, as only some of a model's layers may have an adapter.
ADAPTED_LINEAR: Operation[nn.Module, Callable[[nn.Module, LayerKernels], Projection]] = Operation(
    "adapted_linear", [LORA_ON_CARD, FUSED_LORA, FUSED_DORA, Kernel("module", _module)]
)
