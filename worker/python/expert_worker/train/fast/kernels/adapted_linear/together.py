"""Linear layers that take the same input, such as queries, keys and values, with their LoRA: the input passes
through their low-rank matrices at once, and its gradient is summed inside the products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...weights import read
from ..matmul import added, added_transposed, over_tokens, times, times_transposed
from .grouped import GroupedLora, grouped
from .lora import FusedLora


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bases: Sequence[nn.Module], scales: Sequence[float], *matrices: Tensor
    ) -> tuple[Tensor, ...]:
        downs, ups = matrices[: len(bases)], matrices[len(bases) :]
        narrow = times_transposed(x, torch.cat(downs).to(x.dtype))
        outs = []
        for base, scale, up, part in zip(bases, scales, ups, _parts(narrow, downs), strict=True):
            out = times_transposed(x, read(base, x.dtype))
            if isinstance(base.bias, Tensor):
                out.add_(base.bias.detach())
            outs.append(added_transposed(out, part.mul_(scale), up.to(x.dtype)))
        ctx.save_for_backward(x, narrow, *matrices)
        ctx.bases, ctx.scales = bases, scales
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, *matrices = ctx.saved_tensors
        downs, ups = matrices[: len(grads)], matrices[len(grads) :]
        given = zip(grads, ctx.scales, ups, strict=True)
        back = torch.cat([times(grad, up.to(grad.dtype)).mul_(scale) for grad, scale, up in given], 1)
        to_downs = torch.split(over_tokens(back, x).to(downs[0].dtype), [len(down) for down in downs])
        ends = zip(_parts(narrow, downs), grads, ups, strict=True)
        to_ups = [over_tokens(part, grad).t().to(up.dtype) for part, grad, up in ends]
        to_x = None
        if ctx.needs_input_grad[0]:
            first, *others = zip(grads, ctx.bases, strict=True)
            to_x = times(first[0], read(first[1], x.dtype))
            for grad, base in others:
                to_x = added(to_x, grad, read(base, x.dtype))
            to_x = added(to_x, back, torch.cat(downs).to(x.dtype))
        return to_x, None, None, *to_downs, *to_ups


def _parts(narrow: Tensor, downs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The columns of each layer."""
    return torch.split(narrow, [len(down) for down in downs], 1)


def together(layers: Sequence[Any], x: Tensor) -> tuple[Tensor, ...]:
    """The outputs of layers that take `x`: at once where all are LoRA without dropout, else one by one; of
    several experts always at once."""
    if all(isinstance(layer, GroupedLora) for layer in layers):
        return grouped(layers, x)
    alike = all(isinstance(layer, FusedLora) and layer.draw(x.shape[-1]).keys is None for layer in layers)
    if not alike:
        return tuple(layer(x) for layer in layers)
    matrices = [layer.matrices() for layer in layers]
    bases, scales = [layer.base for layer in layers], [layer.scale for layer in layers]
    downs, ups = [down for down, _ in matrices], [up for _, up in matrices]
    result: tuple[Tensor, ...] = _Together.apply(x, bases, scales, *downs, *ups)
    return result
