"""The elementwise kernels of the native module: fp32 and bf16 on a CPU, each reads memory once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from expert_worker import _native

from .registry import Target


def runs(target: Target) -> bool:
    return runs_in(target.dtype) and target.device.type == "cpu" and not target.compiled


def runs_in(dtype: torch.dtype) -> bool:
    return dtype == torch.float32 or (dtype == torch.bfloat16 and _native.BF16_RUNS_HERE)


def memory(tensor: Tensor) -> Any:
    """An array that shares the tensor's memory, which must be contiguous; numbers of bf16, which NumPy lacks,
    are whole ones of 16 bits there."""
    tensor = tensor.detach()
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
