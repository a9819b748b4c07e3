"""Replaces a model's linear layers: one autograd function each, if their peft layer is supported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from .dora_linear import RowNorm, dora_linear
from .dropout import NOTHING, CounterDropout
from .lora_linear import lora_linear
from .weights import readable

Projection = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Fused:
    """The parts of a peft LoRA layer; the parameters are looked up at each call, so that they may be
    replaced."""

    module: nn.Module
    base: nn.Module
    adapter: str
    scale: float
    norm: RowNorm | None

    def __call__(self, x: Tensor) -> Tensor:
        down, up = self._matrices()
        dropout = self.module.lora_dropout[self.adapter]  # type: ignore[index]
        draw = dropout.draw(x.shape[-1]) if isinstance(dropout, CounterDropout) else NOTHING
        if self.norm is None:
            return lora_linear(x, down, up, self.base, self.scale, draw)
        magnitude = self.module.lora_magnitude_vector[self.adapter].weight  # type: ignore[index, union-attr]
        return dora_linear(x, down, up, magnitude, self.norm, self.base, self.scale, draw)

    def make_ready(self) -> None:
        """Makes what is kept between calls: a compiled call only reads it, and so serves every layer."""
        down, up = self._matrices()
        dropout = self.module.lora_dropout[self.adapter]  # type: ignore[index]
        if isinstance(dropout, CounterDropout):
            dropout.columns.of(down.shape[1], down.device)
        if self.norm is not None:
            self.norm.of(down, up)

    def invalidate(self) -> None:
        if self.norm is not None:
            self.norm.invalidate()

    def _matrices(self) -> tuple[Tensor, Tensor]:
        down = self.module.lora_A[self.adapter].weight  # type: ignore[index, union-attr]
        return down, self.module.lora_B[self.adapter].weight  # type: ignore[index, union-attr]


def projection(module: nn.Module, fuse: bool = True) -> Projection:
    """The fused form of a LoRA or DoRA layer; any other module as it is."""
    fused = _fused(module) if fuse else None
    return fused if fused is not None else module


def _fused(module: nn.Module) -> Fused | None:
    from peft.tuners.lora import LoraLayer

    if not isinstance(module, LoraLayer):
        return None
    adapters = [name for name in module.active_adapters if name in module.lora_A]
    base = module.get_base_layer()
    if not all(isinstance(module.lora_A[name], nn.Linear) for name in adapters):
        return None  # AdaLoRA's layers have triplets of parameters.
    if len(adapters) != 1 or module.merged or module.disable_adapters or not readable(base):
        return None
    (adapter,) = adapters
    variant = type(getattr(module, "lora_variant", {}).get(adapter)).__name__
    if variant not in ("NoneType", "DoraLinearVariant") or getattr(module, "fan_in_fan_out", False):
        return None
    if getattr(module, "lora_bias", {}).get(adapter) or not _known_dropout(module.lora_dropout[adapter]):
        return None
    scale = float(module.scaling[adapter])
    return Fused(module, base, adapter, scale, None if variant == "NoneType" else RowNorm(base, scale))


def _known_dropout(dropout: nn.Module) -> bool:
    return isinstance(dropout, (nn.Identity, CounterDropout))
