"""Which elements are dropped, from one 32-bit number per token and one per column; and products of adapters
with what is left of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from . import triton_code
from .matmul import product_into
from .registry import Kernel, Operation, Target

FIRST, SECOND, SHIFT = 0x2C1B3C6D, 0x297A2D39, 15


def scramble_(words: Tensor) -> Tensor:
    """In place, so that nearby words share no visible pattern. It ends in a multiplication because torch's
    shift copies the sign: a last xor-shift would clear it."""
    words.mul_(FIRST)
    words.bitwise_xor_(words >> SHIFT)
    return words.mul_(SECOND)


def words(keys: Tensor, columns: Tensor) -> Tensor:
    """One int32 for each (token, column), uniform over all 32 bits."""
    return scramble_(keys.unsqueeze(-1) ^ columns)


def limit(share: float) -> int:
    """Elements whose words are below it are dropped."""
    return int(share * (1 << 32)) - (1 << 31)


def dropped(keys: Tensor, columns: Tensor, share: float) -> Tensor:
    """True where an element is dropped."""
    return words(keys, columns) < limit(share)


@dataclass
class Drops:
    """What layers with the same input [tokens, width] drop of it, each for itself."""

    # One for each token.
    keys: Tensor
    # [layers, width]
    columns: Tensor
    share: float

    @cached_property
    def masks(self) -> list[Tensor]:
        return [dropped(self.keys, columns, self.share) for columns in self.columns]


class Dropout(Protocol):
    """For layers of equal rank with the same input x. `down` has their A one below the other, and the columns
    of narrow matrices [tokens, layers * rank] are in the same order. Only `drop` scales what is left."""

    def project(self, x: Tensor, down: Tensor, drops: Drops, out: Tensor) -> None:
        """out = dropout(x) A^T, narrow."""

    def add_to_downs(self, back: Tensor, x: Tensor, drops: Drops, out: Tensor, *, keep: bool) -> None:
        """out = back^T dropout(x), like `down`; added to it with `keep`."""

    def add_through_downs(self, to_x: Tensor, back: Tensor, down: Tensor, drops: Drops) -> None:
        """Adds the gradient that comes to x through the layers."""

    def drop(self, x: Tensor, drops: Drops, into: Tensor, rest: Tensor | None = None) -> None:
        """Writes what one layer's dropout leaves of x, and x without that; `into` may be x."""


class _ByTorch:
    """With the masks in memory, one layer after another."""

    def project(self, x: Tensor, down: Tensor, drops: Drops, out: Tensor) -> None:
        for mask, ranks in _layers(drops, down):
            torch.mm(x.masked_fill(mask, 0), down[ranks].t(), out=out[:, ranks])

    def add_to_downs(self, back: Tensor, x: Tensor, drops: Drops, out: Tensor, *, keep: bool) -> None:
        for mask, ranks in _layers(drops, out):
            product_into(out[ranks], back[:, ranks].t(), x.masked_fill(mask, 0), 1.0, keep=keep)

    def add_through_downs(self, to_x: Tensor, back: Tensor, down: Tensor, drops: Drops) -> None:
        for mask, ranks in _layers(drops, down):
            to_x.add_((back[:, ranks] @ down[ranks]).masked_fill_(mask, 0))

    def drop(self, x: Tensor, drops: Drops, into: Tensor, rest: Tensor | None = None) -> None:
        (mask,) = drops.masks
        if into is not x:
            into.copy_(x)
        into.masked_fill_(mask, 0).div_(1 - drops.share)
        if rest is not None:
            torch.sub(x, into, out=rest)


def _layers(drops: Drops, down: Tensor) -> Iterator[tuple[Tensor, slice]]:
    """Each layer's mask and its rows of `down`."""
    rank = len(down) // len(drops.columns)
    for number, mask in enumerate(drops.masks):
        yield mask, slice(number * rank, (number + 1) * rank)


def _by_triton() -> Dropout:
    from .triton_code.dropout import InProducts

    return InProducts()


BY_TORCH: Dropout = _ByTorch()
DROPOUT: Operation[Target, Callable[[], Dropout]] = Operation(
    "dropout",
    [
        Kernel(
            "in_products",
            _by_triton,
            triton_code.runs,
            "Dropout inside the adapters' products",
            saves_memory=True,
        ),
        Kernel("torch", lambda: BY_TORCH),
    ],
)
