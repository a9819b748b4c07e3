"""The elementwise kernels of the native module: fp32 on a CPU, each reads memory once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import Target


def runs(target: Target) -> bool:
    return target.device.type == "cpu" and target.dtype == torch.float32 and not target.compiled


def memory(tensor: Tensor) -> Any:
    """An array that shares the tensor's memory, which must be contiguous."""
    return tensor.detach().numpy()
