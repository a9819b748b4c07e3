"""Rotary positions for layouts that turn the two halves of a head against each other (Llama and similar
models).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def _turn(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    if torch.compiler.is_compiling():
        # The compiler makes one kernel of it, and cannot follow products that are written into views.
        return torch.cat((first * cos - sign * second * sin, second * cos + sign * first * sin), -1)
    out = torch.empty_like(x)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-sign)
    torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin, value=sign)
    return out


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(grad, cos, sin, -1), None, None


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` is [tokens, heads, width]; `cos` and `sin` are [tokens, 1, width / 2]."""
    result: Tensor = _Rotary.apply(x, cos, sin)
    return result
