"""Queries, keys and values with LoRA on a GPU. Their norms and rotary positions add what LoRA adds: of these
layers' outputs, only the base's part is in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...dropout import Draw
from ..registry import Kernel, Operation, Target
from .mlp import BY_LAYER, MOST_RANKS, runs
from .on_card import CardGroup


class Turn(Protocol):
    """`qkv` is [tokens, (query + 2 * key heads) * width], of the base alone; `narrow` [tokens, 3 * rank] and
    `ups` [outputs, rank] have what LoRA adds to it; `norms` are the weights of queries and keys, [2, width],
    if their heads are normed."""

    def turn(
        self,
        qkv: Tensor,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        cos: Tensor,
        sin: Tensor,
        norms: Tensor | None,
        epsilon: float,
        heads: tuple[int, int],
        turned: Tensor,
        values: Tensor,
    ) -> None:
        """Writes queries and keys side by side into `turned`, and `values`, which may be those of `qkv`."""

    def back(
        self,
        grads: tuple[Tensor, Tensor, Tensor],
        qkv: Tensor | None,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        cos: Tensor,
        sin: Tensor,
        norms: Tensor | None,
        epsilon: float,
        heads: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        """The gradients of the layers' outputs, in place of `qkv`, and of `narrow`. Only norms need `qkv`."""


class _Heads(Function):
    """A and B are arguments so that autograd comes back to here, where their gradients are added to them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        adapted: AdaptedHeads,
        draws: list[Draw],
        cos: Tensor,
        sin: Tensor,
        *_trained: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        group, width = adapted.group, adapted.width
        narrow, qkv = group.project(x, draws), group.of_bases(x)
        (query, key, value), tokens = group.widths, len(x)
        turned = x.new_empty((tokens, query + key))
        # Norms need the rest of `qkv` once more, and attention keeps the values: one of each in memory.
        values = qkv[:, query + key :] if adapted.norms is not None else x.new_empty((tokens, value))
        adapted.kernel.turn(qkv, narrow, *adapted.given(x, draws, cos, sin), turned, values)
        ctx.save_for_backward(x, narrow, cos, sin, qkv if adapted.norms is not None else None)
        ctx.adapted, ctx.draws = adapted, draws
        return (
            turned[:, :query].view(tokens, -1, width),
            turned[:, query:].view(tokens, -1, width),
            values.view(tokens, -1, width),
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow, cos, sin, qkv = ctx.saved_tensors
        adapted, draws = ctx.adapted, ctx.draws
        group, given = adapted.group, adapted.given(x, draws, cos, sin)
        query, key, value = (grad.contiguous() for grad in grads)
        # In place: the saved outputs are in memory until this function ends, and attention is done with them.
        to_qkv, back = adapted.kernel.back((query, key, value), qkv, narrow, *given)
        group.add_to_ups(to_qkv, narrow, draws)
        group.add_to_downs(back, x, draws)
        to_x = group.to_input(to_qkv, back, draws) if ctx.needs_input_grad[0] else None
        return to_x, None, None, None, None, *(None for _ in range(len(ctx.needs_input_grad) - 5))


class AdaptedHeads:
    """[tokens, inputs] -> queries, keys and values, each [tokens, heads, width]. `norms` are the weights of
    queries and of keys, with one epsilon."""

    def __init__(
        self,
        kernel: Turn,
        group: CardGroup,
        norms: Sequence[tuple[Tensor, float]],
        width: int,
    ) -> None:
        self.kernel, self.group, self.width = kernel, group, width
        self.norms = torch.stack([weight for weight, _ in norms]) if norms else None
        self._epsilon = norms[0][1] if norms else 0.0
        self._heads = group.widths[0] // width, group.widths[1] // width

    @staticmethod
    def fits(group: CardGroup, norms: Sequence[tuple[Tensor, float]]) -> bool:
        one_epsilon = len({epsilon for _, epsilon in norms}) <= 1
        return group.is_uniform and group.copied.ranks[0] <= MOST_RANKS and one_epsilon

    def __call__(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`cos` and `sin` are [tokens, 1, width / 2]."""
        draws = self.group.draws(x.shape[-1])
        result: tuple[Tensor, Tensor, Tensor] = _Heads.apply(x, self, draws, cos, sin, *self.group.trained())
        return result

    def given(
        self, x: Tensor, draws: Sequence[Draw], cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, float, Tensor, Tensor, Tensor | None, float, tuple[int, int]]:
        """What the kernel takes besides the tokens."""
        ups, (scale, *_) = self.group.copied.stacked_ups(x.dtype), self.group.scales(draws)
        return ups, scale, cos, sin, self.norms, self._epsilon, self._heads


def _by_triton() -> Turn:
    from ..triton_code.heads import InHeads

    return InHeads()


def _nothing() -> Turn | None:
    return None


ADAPTED_HEADS: Operation[Target, Callable[[], Turn | None]] = Operation(
    "adapted_heads",
    [
        Kernel("in_rotation", _by_triton, runs, "LoRA of queries and keys inside their rotary positions"),
        Kernel(BY_LAYER, _nothing),
    ],
)
