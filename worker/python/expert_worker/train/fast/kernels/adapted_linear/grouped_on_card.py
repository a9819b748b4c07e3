"""Layers with the same input on a GPU with the LoRA of several experts: one product with the base's weights
for all tokens, and each expert's own products, as alone, for its tokens, which follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...dropout import NOTHING, Draw
from .grouped import Bounds
from .on_card import CardGroup


@dataclass(frozen=True)
class GroupedOnCard:
    """The layers with each expert's LoRA; None for an expert that adapts none of them."""

    experts: tuple[CardGroup | None, ...]
    bounds: Bounds

    @property
    def widths(self) -> tuple[int, ...]:
        return self._base.widths

    @property
    def _base(self) -> CardGroup:
        """Any expert's: all have the same weights."""
        return next(group for group in self.experts if group is not None)

    def __call__(self, x: Tensor) -> Tensor:
        segments = [
            _Segment(slice(start, end), group, group.draws(x.shape[-1]) if group else [])
            for group, (start, end) in zip(self.experts, pairwise(self.bounds()), strict=True)
            if start < end
        ]
        trained = [matrix for it in segments if it.group for matrix in it.group.trained()]
        result: Tensor = _GroupedOnCard.apply(x, self._base, segments, *trained)
        return result


@dataclass(frozen=True)
class _Segment:
    """One expert's tokens."""

    tokens: slice
    group: CardGroup | None
    # Of all tokens.
    drawn: Sequence[Draw]

    @property
    def draws(self) -> list[Draw]:
        return [
            NOTHING if it.keys is None else Draw(it.keys[self.tokens], it.columns, it.share)
            for it in self.drawn
        ]


class _GroupedOnCard(torch.autograd.Function):
    """A and B are arguments so that autograd comes back to here, where their gradients are added to them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, base: CardGroup, segments: Sequence[_Segment], *_trained: Tensor
    ) -> Tensor:
        out = x.new_empty((len(x), sum(base.widths)))
        narrows = []
        for it in segments:
            own = out[it.tokens]
            if it.group is None:
                own.zero_()
                continue
            narrows.append(it.group.project(x[it.tokens], it.draws))
            it.group.write_adapted(narrows[-1], it.draws, own)
        ctx.save_for_backward(x, *narrows)
        ctx.base, ctx.segments = base, segments
        return base.of_bases(x, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *narrows = ctx.saved_tensors
        base, grad = ctx.base, grad.contiguous()
        to_x = base.through_bases(grad) if ctx.needs_input_grad[0] else None
        adapted = [it for it in ctx.segments if it.group is not None]
        for it, narrow in zip(adapted, narrows, strict=True):
            own, group, draws = grad[it.tokens], it.group, it.draws
            back = group.back(own, draws)
            group.add_to_ups(own, narrow, draws)
            group.add_to_downs(back, x[it.tokens], draws)
            if to_x is not None:
                group.add_through(to_x[it.tokens], back, draws)
        return to_x, None, None, *(None for _ in range(len(ctx.needs_input_grad) - 3))
