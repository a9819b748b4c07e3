"""DoRA in one step: y = W (x - d) + (m / |W + s B A|) * (W d + s B A d), where d = dropout(x).

The ratio m / |W + s B A| stays near 1, where bf16 has steps of 0.4% and more. So what is used is how far it
is from 1: y = W x + s B A d + (ratio - 1) (W d + s B A d). The small parts are summed first, and only their
sum with W x is rounded in steps of its size.

As in peft the norm is a constant to the gradient. It depends on the adapter alone, so it is computed once per
optimizer step, and from products as narrow as the rank:
|W + s B A|^2 = |W|^2 + 2 s rows(B * W A^T) + s^2 rows(B * B A A^T).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...weights import read
from ..dequantize import Dequantize, by_bitsandbytes
from ..dropout import Drops
from ..matmul import added, added_transposed, over_tokens, times, times_transposed
from ..registry import Kernel
from .layer import FusedLayer, LayerKernels, parts, variant


class RowNorm:
    """|W + s B A| by rows, cached until `invalidate`.

    A tensor's `_version` cannot decide this: torch's fused optimizers and those of bitsandbytes write to
    parameters without increasing it.
    """

    def __init__(self, base: nn.Module, scale: float, dequantize: Dequantize = by_bitsandbytes) -> None:
        self._base, self._scale, self._dequantize = base, scale, dequantize
        self._base_squared: Tensor | None = None
        self._norm = torch.empty(0)
        self._valid = False

    def invalidate(self) -> None:
        """A or B has changed."""
        self._valid = False

    @torch.no_grad()
    def of(self, down: Tensor, up: Tensor) -> Tensor:
        if not self._valid:
            weight = read(self._base, torch.float32, self._dequantize)
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
        layer: FusedDora,
        *drawn: Any,
    ) -> Tensor:
        weight, scale, base = layer.weight(x.dtype), layer.scale, layer.base
        drops, rest = _drops(*drawn), None
        kept = x
        if drops is not None:
            kept, rest = torch.empty_like(x), torch.empty_like(x)
            layer.kernels.dropout.drop(x, drops, kept, rest)
        product = times_transposed(kept, weight)
        narrow = times_transposed(kept, down.to(x.dtype)).mul_(scale)
        ratio = magnitude.float() / norm
        change = times_transposed(narrow, (up.float() * ratio.unsqueeze(1)).to(x.dtype))
        change.addcmul_(product, (ratio - 1).to(x.dtype))
        out = change.add_(product)
        if rest is not None:
            out = added_transposed(out, rest, weight)
        if isinstance(base.bias, Tensor):
            out.add_(base.bias.detach())
        ctx.save_for_backward(x, narrow, product, down, up, magnitude, norm, *drawn[:2])
        ctx.layer, ctx.share = layer, drawn[2]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, product, down, up, magnitude, norm, keys, columns = ctx.saved_tensors
        layer: FusedDora = ctx.layer
        drops, kept = _drops(keys, columns, ctx.share), x
        if drops is not None:
            kept = torch.empty_like(x)
            layer.kernels.dropout.drop(x, drops, kept)
        ratio = magnitude.float() / norm
        scaled = torch.addcmul(grad, grad, (ratio - 1).to(grad.dtype))
        back = times(scaled, up.to(grad.dtype)).mul_(layer.scale)
        through = over_tokens(narrow, grad).t().float()
        to_up = (through * ratio.unsqueeze(1)).to(up.dtype)
        # The gradient times the direction's output, W d + s B A d.
        turned = (grad * product).float().sum(0) + (through * up).sum(1)
        to_magnitude = (turned / norm).to(magnitude.dtype)
        to_down = over_tokens(back, kept).to(down.dtype)
        to_x = None
        if ctx.needs_input_grad[0]:
            del kept
            adapter = times(back, down.to(grad.dtype))
            to_x = _to_input(grad, scaled, adapter, layer, drops)
        return to_x, to_down, to_up, to_magnitude, None, None, None, None, None


def _to_input(grad: Tensor, scaled: Tensor, adapter: Tensor, layer: FusedDora, drops: Drops | None) -> Tensor:
    weight = layer.weight(grad.dtype)
    if drops is None:
        return added(adapter, scaled, weight)
    through = added(adapter, scaled.sub_(grad), weight)
    layer.kernels.dropout.drop(through, drops, through)
    return added(through, grad, weight)


def _drops(keys: Tensor | None, columns: Tensor | None, share: float) -> Drops | None:
    return None if keys is None or columns is None else Drops(keys, columns.unsqueeze(0), share)


@dataclass(frozen=True)
class FusedDora(FusedLayer):
    norm: RowNorm
    takes_kernels: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        down, up = self.matrices()
        magnitude = self.module.lora_magnitude_vector[self.adapter].weight  # type: ignore[index, union-attr]
        # The parts of a draw are separate arguments: autograd sees only tensors among the arguments.
        result: Tensor = _DoraLinear.apply(
            x, down, up, magnitude, self.norm.of(down, up), self, *self.draw(x.shape[-1])
        )
        return result

    def invalidate(self) -> None:
        self.norm.invalidate()


def _fused(module: nn.Module, kernels: LayerKernels) -> FusedDora:
    module, base, adapter, scale = parts(module)
    norm = RowNorm(base, scale, kernels.dequantize)
    return FusedDora(module, base, adapter, scale, norm, kernels=kernels)


def _runs(module: nn.Module) -> bool:
    return variant(module) == "dora"


FUSED_DORA = Kernel("fused_dora", _fused, _runs, saves_memory=True)
