"""A frozen base weight as a matrix in the dtype of the computation, whatever it is stored as."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear


def is_4bit(module: nn.Module) -> bool:
    return type(getattr(module, "weight", None)).__name__ == "Params4bit"


def readable(module: nn.Module) -> bool:
    """Whether `read` gives exactly the matrix that the module's own forward multiplies by."""
    return is_plain(module) or is_4bit(module)


def read(module: Any, dtype: torch.dtype) -> Tensor:
    weight = module.weight
    if is_4bit(module):
        from bitsandbytes.functional import dequantize_4bit

        unpacked: Tensor = dequantize_4bit(weight.data, weight.quant_state)
        return unpacked.to(dtype)
    assert isinstance(weight, Tensor)
    return weight.detach().to(dtype)
