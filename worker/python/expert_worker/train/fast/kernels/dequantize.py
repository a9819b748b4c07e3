"""Weights in 4 bits, of bitsandbytes, as matrices in the dtype of the computation."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from . import triton_code
from .registry import Kernel, Operation, Target


class Dequantize(Protocol):
    def __call__(self, weight: Any, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        """A `Params4bit` in `dtype`, in `out` if that is given."""


def by_bitsandbytes(weight: Any, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    from bitsandbytes.functional import dequantize_4bit

    state = weight.quant_state
    if out is not None and out.is_cuda and dtype == state.dtype:
        return dequantize_4bit(weight.data, state, out=out)
    made: Tensor = dequantize_4bit(weight.data, state)
    return made.to(dtype) if out is None else out.copy_(made)


def in_one_launch(weight: Any, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    from .triton_code.dequantize import dequantize

    if out is None:
        out = torch.empty(weight.quant_state.shape, dtype=dtype, device=weight.device)
    dequantize(weight, out)
    return out


DEQUANTIZE: Operation[Target, Dequantize] = Operation(
    "dequantize",
    [
        Kernel(
            "in_one_launch", in_one_launch, triton_code.runs, "4-bit weights dequantized in one launch each"
        ),
        Kernel("bitsandbytes", by_bitsandbytes),
    ],
)
