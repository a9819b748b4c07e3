"""Linear layers of one frozen base with the LoRA of several experts: one product with the base's weight for
all tokens, and products with each expert's matrices for its own, which follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...dropout import NOTHING, Draw
from ...weights import read
from ..matmul import added, added_transposed, over_tokens, times, times_transposed
from .lora import FusedLora

# Where each expert's tokens begin in the current input, and where the last one's end.
Bounds = Callable[[], Sequence[int]]


@dataclass(frozen=True)
class GroupedLora:
    """One layer: the base's, and each expert's LoRA on it; None for an expert that does not adapt it."""

    base: nn.Module
    experts: tuple[FusedLora | None, ...]
    bounds: Bounds

    def __call__(self, x: Tensor) -> Tensor:
        (out,) = grouped((self,), x)
        return out


@dataclass(frozen=True)
class _Segment:
    """One expert's tokens, and those of its adapted layers (by number) that read the same input."""

    start: int
    end: int
    layers: tuple[int, ...]
    scales: tuple[float, ...]
    draw: Draw

    def of(self, x: Tensor) -> Tensor:
        return x[self.start : self.end]

    def kept(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.of(x) if mask is None else self.of(x).masked_fill(mask, 0)


class _Grouped(torch.autograd.Function):
    """`matrices`: of each segment, A of its layers and then B of them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bases: Sequence[nn.Module], segments: Sequence[_Segment], *matrices: Tensor
    ) -> tuple[Tensor, ...]:
        outs = [_of_base(x, base) for base in bases]
        narrows = []
        for segment, (downs, ups) in zip(segments, _of_segments(segments, matrices), strict=True):
            kept = segment.kept(x, segment.draw.mask())
            narrow = times_transposed(kept, torch.cat(downs).to(x.dtype))
            parts = torch.split(narrow, [len(down) for down in downs], 1)
            for layer, scale, part, up in zip(segment.layers, segment.scales, parts, ups, strict=True):
                out = segment.of(outs[layer])
                _keep(out, added_transposed(out, part.mul_(scale), up.to(x.dtype)))
            narrows.append(narrow)
        ctx.save_for_backward(x, *narrows, *matrices)
        ctx.bases, ctx.segments = bases, segments
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        narrows, matrices = saved[: len(ctx.segments)], saved[len(ctx.segments) :]
        to_x = _to_input(grads, ctx.bases, x.dtype) if ctx.needs_input_grad[0] else None
        to_matrices: list[Tensor] = []
        given = zip(ctx.segments, _of_segments(ctx.segments, matrices), narrows, strict=True)
        for segment, (downs, ups), narrow in given:
            mask = segment.draw.mask()
            own = [segment.of(grads[layer]) for layer in segment.layers]
            ends = zip(own, ups, segment.scales, strict=True)
            back = torch.cat([times(grad, up.to(grad.dtype)).mul_(scale) for grad, up, scale in ends], 1)
            sizes = [len(down) for down in downs]
            to_downs = over_tokens(back, segment.kept(x, mask)).to(downs[0].dtype)
            to_matrices += torch.split(to_downs, sizes)
            parts = torch.split(narrow, sizes, 1)
            to_matrices += [
                over_tokens(part, grad).t().to(up.dtype)
                for part, grad, up in zip(parts, own, ups, strict=True)
            ]
            if to_x is None:
                continue
            down, rows = torch.cat(downs).to(x.dtype), segment.of(to_x)
            if mask is None:
                _keep(rows, added(rows, back, down))
            else:
                rows.add_(times(back, down).masked_fill_(mask, 0))
        return to_x, None, None, *to_matrices


def _of_base(x: Tensor, base: nn.Module) -> Tensor:
    out = times_transposed(x, read(base, x.dtype))
    if isinstance(base.bias, Tensor):
        out.add_(base.bias.detach())
    return out


def _to_input(grads: Sequence[Tensor], bases: Sequence[nn.Module], dtype: torch.dtype) -> Tensor:
    (first, base), *others = zip(grads, bases, strict=True)
    to_x = times(first, read(base, dtype))
    for grad, base in others:
        to_x = added(to_x, grad, read(base, dtype))
    return to_x


def _keep(rows: Tensor, product: Tensor) -> None:
    """A library may have put the product beside the rows that it was to be added to."""
    if product.data_ptr() != rows.data_ptr():
        rows.copy_(product)


def _of_segments(
    segments: Sequence[_Segment], matrices: Sequence[Tensor]
) -> list[tuple[list[Tensor], list[Tensor]]]:
    found: list[tuple[list[Tensor], list[Tensor]]] = []
    start = 0
    for segment in segments:
        count = len(segment.layers)
        own = list(matrices[start : start + 2 * count])
        found.append((own[:count], own[count:]))
        start += 2 * count
    return found


def grouped(layers: Sequence[GroupedLora], x: Tensor) -> tuple[Tensor, ...]:
    """The outputs of layers that take `x`."""
    segments: list[_Segment] = []
    matrices: list[Tensor] = []
    for expert, (start, end) in enumerate(pairwise(layers[0].bounds())):
        adapted = {number: lora for number, it in enumerate(layers) if (lora := it.experts[expert])}
        if start == end or not adapted:
            continue
        draws = {number: lora.draw(x.shape[-1]) for number, lora in adapted.items()}
        # Each layer drops other elements: only without dropout do they read the same.
        together = (
            [list(draws)] if all(draw.keys is None for draw in draws.values()) else [[n] for n in draws]
        )
        for numbers in together:
            draw = draws[numbers[0]]
            share = 1 - draw.share if draw.keys is not None else 1.0
            scales = tuple(adapted[number].scale / share for number in numbers)
            own = Draw(draw.keys[start:end], draw.columns, draw.share) if draw.keys is not None else NOTHING
            segments.append(_Segment(start, end, tuple(numbers), scales, own))
            pairs = [adapted[number].matrices() for number in numbers]
            matrices += [down for down, _ in pairs] + [up for _, up in pairs]
    result: tuple[Tensor, ...] = _Grouped.apply(x, [it.base for it in layers], segments, *matrices)
    return result
