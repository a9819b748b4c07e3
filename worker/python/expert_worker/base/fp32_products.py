"""Products of a 16-bit model formed in fp32, for processors without units for the 16-bit format.

Such a processor emulates the format: on AVX2 a product in bf16 takes eight times as long as one in fp32. So
the frozen weights are converted once (their values stay exactly those of the format), inputs are widened
and outputs rounded back. Activations keep the 16-bit format, and so does the result, within rounding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expert_worker.base import product_speed
from expert_worker.events import Events

_MARK = "products_in_fp32"
_QUANTIZED = ("Linear4bit", "Linear8bitLt")


def product_dtype(module: nn.Module, dtype: torch.dtype) -> torch.dtype:
    """The format in which this linear layer's products are formed for activations in `dtype`."""
    return torch.float32 if getattr(module, _MARK, False) else dtype


def is_choice(dtype: torch.dtype, device: torch.device) -> bool:
    return dtype != torch.float32 and device.type == "cpu"


def chosen(
    planned: bool,
    dtype: torch.dtype,
    device: torch.device,
    home: Path,
    events: Events,
    kept: bool | None = None,
) -> bool:
    """The plan's choice, unless products measured on this processor contradict it clearly. A resumed run's
    choice is `kept`: another one rounds differently."""
    if not is_choice(dtype, device):
        return False
    if kept is not None:
        events.applied("fp32_products", kept, "Products in fp32, as when the run began" if kept else None)
        return kept
    found = product_speed.of(dtype, planned, home)
    name = str(dtype).removeprefix("torch.")
    if found.in_fp32 != planned:
        events.warning(
            "products-measured",
            f"A {name} product takes {found.times_fp32:.1f} times as long as one in fp32 here, against what "
            f"the processor's flags say: products are formed in {'fp32' if found.in_fp32 else name}",
            "The next plan counts their memory." if found.in_fp32 else None,
        )
    text = f"Products in fp32: {name} ones take {found.times_fp32:.1f} times as long on this processor"
    events.applied("fp32_products", found.in_fp32, text if found.in_fp32 else None)
    return found.in_fp32


def held(model: Any) -> bool:
    return any(getattr(module, _MARK, False) for module in model.modules())


def hold_in_fp32(model: Any, dtype: torch.dtype) -> None:
    """Converts the weights of all linear layers in place; every layer still takes and gives `dtype`.

    An embedding that shares its weight with the head is converted with it. A second call changes nothing."""
    if held(model):
        return
    converted: set[int] = set()
    for module in model.modules():
        if type(module) is nn.Linear and module.weight.dtype == dtype:
            converted.add(id(module.weight))
            setattr(module, _MARK, True)
        elif type(module).__name__ in _QUANTIZED:
            setattr(module, _MARK, True)
            _compute_in_fp32(module)
    for module in model.modules():
        shares = isinstance(module, nn.Embedding) and id(module.weight) in converted
        if shares:
            module.register_forward_hook(_Rounded(dtype))
    for module in model.modules():
        if type(module) is nn.Linear and getattr(module, _MARK, False):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.float()
            module.register_forward_pre_hook(_widened)
            module.register_forward_hook(_Rounded(dtype))


def _compute_in_fp32(module: Any) -> None:
    """bitsandbytes' own forward converts inputs to this format and outputs back."""
    if hasattr(module, "compute_dtype"):
        module.compute_dtype = torch.float32
        module.compute_type_is_set = True


def _widened(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (inputs[0].float(), *inputs[1:])


class _Rounded:
    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def __call__(self, _module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output.to(self._dtype)
