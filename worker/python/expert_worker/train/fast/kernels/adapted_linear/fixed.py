"""Linear layers that take the same input, with adapters that do not change: nothing is kept for a way back,
and the matrices of all LoRA are read in the dtype of the computation once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...weights import is_plain, plain_weight
from ..matmul import added_transposed, times_transposed
from .dora import FUSED_DORA
from .layer import LayerKernels, matrices, parts, variant

Lora = tuple[Tensor, Tensor]


class FixedLayers:
    def __init__(self, modules: Sequence[nn.Module], dtype: torch.dtype, kernels: LayerKernels) -> None:
        self._layers = [_layer(module, kernels) for module in modules]
        self._adapted = [place for place, (_, lora) in enumerate(self._layers) if lora is not None]
        pairs = [lora for _, lora in self._layers if lora is not None]
        self._ranks = [len(down) for down, _ in pairs]
        self._down = torch.cat([down.to(dtype) for down, _ in pairs]) if pairs else None
        self._ups = [up.to(dtype) for _, up in pairs]

    def __call__(self, x: Tensor) -> list[Tensor]:
        outs = [_product(layer, x) for layer, _ in self._layers]
        if self._down is not None:
            narrow = torch.split(times_transposed(x, self._down), self._ranks, 1)
            for place, part, up in zip(self._adapted, narrow, self._ups, strict=True):
                outs[place] = added_transposed(outs[place], part, up)
        return outs


def _layer(module: Any, kernels: LayerKernels) -> tuple[Any, Lora | None]:
    """What computes the layer, and the LoRA that is added."""
    from peft.tuners.lora import LoraLayer

    if isinstance(module, LoraLayer) and module.disable_adapters and not module.merged:
        return module.get_base_layer(), None
    kind = variant(module, trained=False)
    if kind == "dora":
        return FUSED_DORA.function(module, kernels), None
    if kind is None:
        return module, None
    _, base, adapter, scale = parts(module)
    down, up = (matrix.detach() for matrix in matrices(module, adapter))
    return base, (down * scale, up)


def _product(layer: Any, x: Tensor) -> Tensor:
    if isinstance(layer, nn.Linear) and is_plain(layer):
        out = times_transposed(x, plain_weight(layer))
        return out if layer.bias is None else out.add_(layer.bias.detach())
    found: Tensor = layer(x)
    return found
