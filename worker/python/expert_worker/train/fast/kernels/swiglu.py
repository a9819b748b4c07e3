"""silu(gate) * up, which keeps its two inputs and recomputes the activation in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import silu

from expert_worker import _native

from . import native
from .in_place import multiplied
from .native import memory
from .registry import Kernel, Operation, Target

SwiGlu = Callable[[Tensor, Tensor], Tensor]


class _InOnePass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        out = torch.empty_like(gate)
        _native.swiglu(memory(gate), memory(up), memory(out), torch.get_num_threads())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        to_gate, to_up = torch.empty_like(gate), torch.empty_like(up)
        _native.swiglu_backward(
            memory(grad.contiguous()),
            memory(gate),
            memory(up),
            memory(to_gate),
            memory(to_up),
            torch.get_num_threads(),
        )
        return to_gate, to_up


def in_one_pass(gate: Tensor, up: Tensor) -> Tensor:
    result: Tensor = _InOnePass.apply(gate, up)
    return result


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return multiplied(silu(gate), up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        to_gate = torch.ops.aten.silu_backward(grad * up, gate)
        return to_gate, silu(gate).mul_(grad)


def recomputed(gate: Tensor, up: Tensor) -> Tensor:
    result: Tensor = _Recomputed.apply(gate, up)
    return result


def reference(gate: Tensor, up: Tensor) -> Tensor:
    """As in transformers."""
    return silu(gate) * up


SWIGLU: Operation[Target, SwiGlu] = Operation(
    "swiglu",
    [
        Kernel("native", in_one_pass, native.runs),
        Kernel("recomputed", recomputed, saves_memory=True),
        Kernel("torch", reference),
    ],
)
