"""The parts of a peft LoRA or DoRA layer, and which layers the fused kernels support."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ...dropout import NOTHING, CounterDropout, Draw
from ...weights import read, readable
from ..dequantize import Dequantize
from ..dropout import Dropout


class LayerKernels(NamedTuple):
    """What layers use of other operations."""

    dropout: Dropout
    dequantize: Dequantize


@dataclass(frozen=True)
class FusedLayer:
    """The parameters are looked up at each call, so that they may be replaced."""

    module: nn.Module
    base: nn.Module
    adapter: str
    scale: float
    kernels: LayerKernels = field(kw_only=True)
    # Whether it uses them, or their references.
    takes_kernels: ClassVar[bool] = False

    def invalidate(self) -> None:
        """The trained parameters have changed."""

    def matrices(self) -> tuple[Tensor, Tensor]:
        return matrices(self.module, self.adapter)

    def draw(self, width: int) -> Draw:
        """For an input of the current tokens."""
        dropout = self.dropout()
        return NOTHING if dropout is None else dropout.draw(width)

    def dropout(self) -> CounterDropout | None:
        found = self.module.lora_dropout[self.adapter]  # type: ignore[index]
        return found if isinstance(found, CounterDropout) else None

    def weight(self, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """The base's, in `out` if that is given."""
        return read(self.base, dtype, self.kernels.dequantize, out)


def matrices(module: nn.Module, adapter: str) -> tuple[Tensor, Tensor]:
    """A and B."""
    down = module.lora_A[adapter].weight  # type: ignore[index, union-attr]
    return down, module.lora_B[adapter].weight  # type: ignore[index, union-attr]


def variant(module: nn.Module, *, trained: bool = True) -> str | None:
    """`lora` or `dora` if the module is a layer of that kind, without anything that changes its product: if
    nothing is trained, dropout does not.
    """
    from peft.tuners.lora import LoraLayer

    if not isinstance(module, LoraLayer):
        return None
    adapters = [name for name in module.active_adapters if name in module.lora_A]
    if not all(isinstance(module.lora_A[name], nn.Linear) for name in adapters):
        return None  # AdaLoRA's layers have triplets of parameters.
    if len(adapters) != 1 or module.merged or module.disable_adapters:
        return None
    if not readable(module.get_base_layer()) or getattr(module, "fan_in_fan_out", False):
        return None
    (adapter,) = adapters
    has_dropout = trained and not _known_dropout(module.lora_dropout[adapter])
    if has_dropout or getattr(module, "lora_bias", {}).get(adapter):
        return None
    found = type(getattr(module, "lora_variant", {}).get(adapter)).__name__
    return {"NoneType": "lora", "DoraLinearVariant": "dora"}.get(found)


def parts(module: nn.Module) -> tuple[nn.Module, nn.Module, str, float]:
    """The fields of a `FusedLayer`."""
    (adapter,) = (name for name in module.active_adapters if name in module.lora_A)  # type: ignore[union-attr, operator]
    return module, module.get_base_layer(), adapter, float(module.scaling[adapter])  # type: ignore[operator, index]


def _known_dropout(dropout: nn.Module) -> bool:
    return isinstance(dropout, (nn.Identity, CounterDropout))
