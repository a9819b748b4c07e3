"""A frozen base weight as a matrix in the dtype of the computation, whatever it is stored as."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear


def is_4bit(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ == "Params4bit"


def is_8bit(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ == "Int8Params"


def readable(module: nn.Module) -> bool:
    """Whether `read` gives the matrix that the module's own forward multiplies by."""
    return is_plain(module) or is_4bit(module) or is_8bit(module)


def read(module: Any, dtype: torch.dtype) -> Tensor:
    weight = module.weight
    if is_4bit(module):
        from bitsandbytes.functional import dequantize_4bit

        unpacked: Tensor = dequantize_4bit(weight.data, weight.quant_state)
        return unpacked.to(dtype)
    if is_8bit(module):
        scale = module.state.SCB if module.state.SCB is not None else weight.SCB
        wide: Tensor = weight.data.to(dtype).mul_(scale.unsqueeze(1).mul(1.0 / 127.0))
        return wide
    assert isinstance(weight, Tensor)
    return weight.detach().to(dtype)
