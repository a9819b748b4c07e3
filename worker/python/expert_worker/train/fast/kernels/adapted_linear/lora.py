"""A linear layer and its LoRA in one step: y = W x + scale * B A dropout(x).

Saved for the backward pass: the input (shared with neighbouring layers), A x (low-rank) and nothing of
the output. Casts are explicit: the adapter's fp32 masters are read in the dtype of the
input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...dropout import Draw
from ...weights import read
from ..matmul import added, added_transposed, over_tokens, times, times_transposed
from ..registry import Kernel
from .layer import FusedLayer, LayerKernels, parts, variant


class _LoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        down: Tensor,
        up: Tensor,
        base: nn.Module,
        scale: float,
        *drawn: Any,
    ) -> Tensor:
        out = times_transposed(x, read(base, x.dtype))
        if isinstance(base.bias, Tensor):
            out.add_(base.bias.detach())
        draw = Draw(*drawn)
        mask = draw.mask()
        if mask is not None:
            scale /= 1 - draw.share
        kept = x if mask is None else x.masked_fill(mask, 0)
        narrow = times_transposed(kept, down.to(x.dtype)).mul_(scale)
        ctx.save_for_backward(x, narrow, down, up, draw.keys, draw.columns)
        ctx.base, ctx.scale, ctx.share = base, scale, draw.share
        return added_transposed(out, narrow, up.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, down, up, keys, columns = ctx.saved_tensors
        mask = Draw(keys, columns, ctx.share).mask()
        kept = x if mask is None else x.masked_fill(mask, 0)
        back = times(grad, up.to(grad.dtype)).mul_(ctx.scale)
        to_up = over_tokens(narrow, grad).t().to(up.dtype)
        to_down = over_tokens(back, kept).to(down.dtype)
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = times(grad, read(ctx.base, grad.dtype))
            if mask is None:
                to_x = added(to_x, back, down.to(grad.dtype))
            else:
                to_x.add_(times(back, down.to(grad.dtype)).masked_fill_(mask, 0))
        return to_x, to_down, to_up, None, None, None, None, None


def lora_linear(x: Tensor, down: Tensor, up: Tensor, base: nn.Module, scale: float, draw: Draw) -> Tensor:
    # The parts are separate arguments: autograd sees only tensors among the arguments.
    result: Tensor = _LoraLinear.apply(x, down, up, base, scale, *draw)
    return result


@dataclass(frozen=True)
class FusedLora(FusedLayer):
    def __call__(self, x: Tensor) -> Tensor:
        down, up = self.matrices()
        return lora_linear(x, down, up, self.base, self.scale, self.draw(x.shape[-1]))


def _fused(module: nn.Module, kernels: LayerKernels) -> FusedLora:
    return FusedLora(*parts(module), kernels=kernels)


def _runs(module: nn.Module) -> bool:
    return variant(module) == "lora"


FUSED_LORA = Kernel("fused_lora", _fused, _runs, saves_memory=True)
