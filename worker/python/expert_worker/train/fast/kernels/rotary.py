"""Rotary positions for layouts that turn the two halves of a head against each other (Llama and similar
models).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from expert_worker import _native

from . import native
from .native import memory
from .registry import Kernel, Operation, Target

Rotary = Callable[[Tensor, Tensor, Tensor], Tensor]


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    if torch.compiler.is_compiling():
        # The compiler makes one kernel of it, and cannot follow products that are written into views.
        return torch.cat((first * cos - sign * second * sin, second * cos + sign * first * sin), -1)
    out = torch.empty_like(x)
    torch.mul(first, cos, out=out[..., :half]).addcmul_(second, sin, value=-sign)
    torch.mul(second, cos, out=out[..., half:]).addcmul_(first, sin, value=sign)
    return out


def _in_one_pass(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    _native.rotate(memory(x), memory(cos), memory(sin), sign, memory(out), torch.get_num_threads())
    return out


class _InOnePass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _in_one_pass(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _in_one_pass(grad, cos, sin, -1), None, None


def in_one_pass(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    if x.dtype != cos.dtype:
        return halves(x, cos, sin)
    result: Tensor = _InOnePass.apply(x, cos, sin)
    return result


class _Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _rotated(grad, cos, sin, -1), None, None


def halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`x` is [tokens, heads, width]; `cos` and `sin` are [tokens, 1, width / 2]."""
    result: Tensor = _Halves.apply(x, cos, sin)
    return result


def reference(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As in transformers."""
    first, second = x.chunk(2, -1)
    return x * cos.repeat(1, 1, 2) + torch.cat((-second, first), -1) * sin.repeat(1, 1, 2)


ROTARY: Operation[Target, Rotary] = Operation(
    "rotary",
    [
        Kernel("native", in_one_pass, native.runs),
        Kernel("halves", halves, saves_memory=True),
        Kernel("torch", reference),
    ],
)
