"""The parts of a peft LoRA or DoRA layer, and which layers the fused kernels support."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ...dropout import NOTHING, CounterDropout, Draw
from ...weights import readable


@dataclass(frozen=True)
class FusedLayer:
    """The parameters are looked up at each call, so that they may be replaced."""

    module: nn.Module
    base: nn.Module
    adapter: str
    scale: float

    def invalidate(self) -> None:
        """The trained parameters have changed."""

    def matrices(self) -> tuple[Tensor, Tensor]:
        down = self.module.lora_A[self.adapter].weight  # type: ignore[index, union-attr]
        return down, self.module.lora_B[self.adapter].weight  # type: ignore[index, union-attr]

    def draw(self, x: Tensor) -> Draw:
        dropout = self.module.lora_dropout[self.adapter]  # type: ignore[index]
        return dropout.draw(x.shape[-1]) if isinstance(dropout, CounterDropout) else NOTHING


def variant(module: nn.Module) -> str | None:
    """`lora` or `dora` if the module is a layer of that kind, without anything that changes its product."""
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
    if getattr(module, "lora_bias", {}).get(adapter) or not _known_dropout(module.lora_dropout[adapter]):
        return None
    found = type(getattr(module, "lora_variant", {}).get(adapter)).__name__
    return {"NoneType": "lora", "DoraLinearVariant": "dora"}.get(found)


def parts(module: nn.Module) -> tuple[nn.Module, nn.Module, str, float]:
    """The fields of a `FusedLayer`."""
    (adapter,) = (name for name in module.active_adapters if name in module.lora_A)  # type: ignore[union-attr, operator]
    return module, module.get_base_layer(), adapter, float(module.scaling[adapter])  # type: ignore[operator, index]


def _known_dropout(dropout: nn.Module) -> bool:
    return isinstance(dropout, (nn.Identity, CounterDropout))
