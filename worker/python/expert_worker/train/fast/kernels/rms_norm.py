"""RMSNorm with a frozen weight: saves its input and one number per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from expert_worker import _native

from . import native
from .in_place import multiplied
from .native import memory
from .registry import Kernel, Operation, Target

RmsNorm = Callable[[Tensor, Tensor, float], Tensor]


class _InOnePass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        x = x.contiguous()
        out, scale = torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)
        threads = torch.get_num_threads()
        _native.rms_norm(memory(x), memory(weight), epsilon, memory(out), memory(scale), threads)
        ctx.save_for_backward(x, scale, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, scale, weight = ctx.saved_tensors
        to_x = torch.empty_like(x)
        _native.rms_norm_backward(
            memory(grad.contiguous()),
            memory(x),
            memory(weight),
            memory(scale),
            memory(to_x),
            torch.get_num_threads(),
        )
        return to_x, None, None


def in_one_pass(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    if x.dtype != weight.dtype:
        return one_scale(x, weight, epsilon)
    result: Tensor = _InOnePass.apply(x, weight, epsilon)
    return result


class _OneScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        wide = x.float()
        scale = wide.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, scale, weight)
        normed = (wide * scale).to(x.dtype)
        return multiplied(normed, weight) if normed.dtype == weight.dtype else normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, scale, weight = ctx.saved_tensors
        wide = x.float()
        weighted = grad.float() * weight.float()
        slope = (weighted * wide).mean(-1, keepdim=True).mul_(scale).mul_(scale)
        return weighted.addcmul_(wide, slope, value=-1).mul_(scale).to(x.dtype), None, None


def one_scale(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    result: Tensor = _OneScale.apply(x, weight, epsilon)
    return result


def reference(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """As in transformers."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


RMS_NORM: Operation[Target, RmsNorm] = Operation(
    "rms_norm",
    [
        Kernel("native", in_one_pass, native.runs),
        Kernel("one_scale", one_scale, saves_memory=True),
        Kernel("torch", reference),
    ],
)
