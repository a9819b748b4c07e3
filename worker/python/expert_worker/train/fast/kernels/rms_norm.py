"""RMSNorm with a frozen weight: saves its input and one number per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .registry import Kernel, Operation, Target

RmsNorm = Callable[[Tensor, Tensor, float], Tensor]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        wide = x.float()
        scale = wide.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, scale, weight)
        normed = (wide * scale).to(x.dtype)
        return normed.mul_(weight) if normed.dtype == weight.dtype else normed * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, scale, weight = ctx.saved_tensors
        wide = x.float()
        weighted = grad.float() * weight.float()
        slope = (weighted * wide).mean(-1, keepdim=True).mul_(scale).mul_(scale)
        return weighted.addcmul_(wide, slope, value=-1).mul_(scale).to(x.dtype), None, None


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    result: Tensor = _RmsNorm.apply(x, weight, epsilon)
    return result


def reference(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """As in transformers."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


RMS_NORM: Operation[Target, RmsNorm] = Operation(
    "rms_norm", [Kernel("one_scale", rms_norm), Kernel("torch", reference)]
)
