"""silu(gate) * up, which keeps its two inputs and recomputes the activation in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

from .registry import Kernel, Operation, Target

SwiGlu = Callable[[Tensor, Tensor], Tensor]


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        to_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return to_gate, silu(gate).mul_(grad)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    result: Tensor = _SwiGlu.apply(gate, up)
    return result


def reference(gate: Tensor, up: Tensor) -> Tensor:
    """As in transformers."""
    return silu(gate) * up


SWIGLU: Operation[Target, SwiGlu] = Operation(
    "swiglu", [Kernel("recomputed", swiglu), Kernel("torch", reference)]
)
