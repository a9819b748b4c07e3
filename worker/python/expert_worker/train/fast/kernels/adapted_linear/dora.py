"""DoRA in one step: y = W (x - d) + (m / |W + s B A|) * (W d + s B A d), where d = dropout(x).

As in peft the norm is a constant to the gradient. It depends on the adapter alone, so it is computed once per
optimizer step, and from products as narrow as the rank:
|W + s B A|^2 = |W|^2 + 2 s rows(B * W A^T) + s^2 rows(B * B A A^T).
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
from .layer import FusedLayer, parts, variant


class RowNorm:
    """|W + s B A| by rows, cached until `invalidate`.

    A tensor's `_version` cannot decide this: torch's fused optimizers and those of bitsandbytes write to
    parameters without increasing it.
    """

    def __init__(self, base: nn.Module, scale: float) -> None:
        self._base, self._scale = base, scale
        self._base_squared: Tensor | None = None
        self._norm = torch.empty(0)
        self._valid = False

    def invalidate(self) -> None:
        """A or B has changed."""
        self._valid = False

    @torch.no_grad()
    def of(self, down: Tensor, up: Tensor) -> Tensor:
        if not self._valid:
            weight = read(self._base, torch.float32)
            if self._base_squared is None:
                self._base_squared = weight.square().sum(1)
            a, b = down.float(), up.float()
            crossed = (b * (weight @ a.t())).sum(1)
            square = (b * (b @ (a @ a.t()))).sum(1)
            total = self._base_squared + 2 * self._scale * crossed + self._scale**2 * square
            # The norm first: another thread may look at `_valid` in between.
            self._norm = total.clamp_min_(0).sqrt_()
            self._valid = True
        return self._norm


class _DoraLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        down: Tensor,
        up: Tensor,
        magnitude: Tensor,
        norm: Tensor,
        base: nn.Module,
        scale: float,
        *drawn: Any,
    ) -> Tensor:
        weight = read(base, x.dtype)
        draw = Draw(*drawn)
        mask = draw.mask()
        kept = x if mask is None else _drop(x, mask, draw.share)
        narrow = times_transposed(kept, down.to(x.dtype)).mul_(scale)
        turned = added_transposed(times_transposed(kept, weight), narrow, up.to(x.dtype))
        ratio = (magnitude.float() / norm).to(x.dtype)
        out = turned * ratio
        if mask is not None:
            out = added_transposed(out, x - kept, weight)
        if isinstance(base.bias, Tensor):
            out.add_(base.bias.detach())
        ctx.save_for_backward(x, narrow, turned, down, up, magnitude, norm, draw.keys, draw.columns)
        ctx.base, ctx.scale, ctx.share = base, scale, draw.share
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, turned, down, up, magnitude, norm, keys, columns = ctx.saved_tensors
        mask = Draw(keys, columns, ctx.share).mask()
        kept = x if mask is None else _drop(x, mask, ctx.share)
        to_magnitude = ((grad * turned).float().sum(0) / norm).to(magnitude.dtype)
        scaled = grad * (magnitude.float() / norm).to(grad.dtype)
        back = times(scaled, up.to(grad.dtype)).mul_(ctx.scale)
        to_up = over_tokens(narrow, scaled).t().to(up.dtype)
        to_down = over_tokens(back, kept).to(down.dtype)
        to_x = None
        if ctx.needs_input_grad[0]:
            adapter = times(back, down.to(grad.dtype))
            to_x = _to_input(grad, scaled, adapter, read(ctx.base, grad.dtype), mask, ctx.share)
        return to_x, to_down, to_up, to_magnitude, None, None, None, None, None, None


def _to_input(
    grad: Tensor,
    scaled: Tensor,
    adapter: Tensor,
    weight: Tensor,
    mask: Tensor | None,
    share: float,
) -> Tensor:
    if mask is None:
        return added(adapter, scaled, weight)
    through = added(adapter, scaled.sub_(grad), weight)
    return added(through.masked_fill_(mask, 0).div_(1 - share), grad, weight)


def _drop(x: Tensor, mask: Tensor, share: float) -> Tensor:
    return x.masked_fill(mask, 0).div_(1 - share)


def dora_linear(
    x: Tensor,
    down: Tensor,
    up: Tensor,
    magnitude: Tensor,
    norm: RowNorm,
    base: nn.Module,
    scale: float,
    draw: Draw,
) -> Tensor:
    # The parts are separate arguments: autograd sees only tensors among the arguments.
    result: Tensor = _DoraLinear.apply(x, down, up, magnitude, norm.of(down, up), base, scale, *draw)
    return result


@dataclass(frozen=True)
class FusedDora(FusedLayer):
    norm: RowNorm

    def __call__(self, x: Tensor) -> Tensor:
        down, up = self.matrices()
        magnitude = self.module.lora_magnitude_vector[self.adapter].weight  # type: ignore[index, union-attr]
        return dora_linear(x, down, up, magnitude, self.norm, self.base, self.scale, self.draw(x))

    def invalidate(self) -> None:
        self.norm.invalidate()


def _fused(module: nn.Module) -> FusedDora:
    module, base, adapter, scale = parts(module)
    return FusedDora(module, base, adapter, scale, RowNorm(base, scale))


def _runs(module: nn.Module) -> bool:
    return variant(module) == "dora"


FUSED_DORA = Kernel("fused_dora", _fused, _runs)
