"""A batch as the fast path sees it: documents end to end, with positions that restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .attention import Documents

IGNORED = -100


@dataclass(frozen=True)
class Flat:
    """`ids`, `labels` and `positions` are [tokens]; `keys` name each token's place for whatever is drawn
    there."""

    ids: Tensor
    labels: Tensor
    positions: Tensor
    lengths: tuple[int, ...]
    keys: Tensor | None = None

    @cached_property
    def documents(self) -> Documents:
        return Documents(self.lengths, self.ids.device)

    @cached_property
    def sources(self) -> Tensor:
        """The tokens whose successor is supervised. A document's first token has no predecessor."""
        wanted = (self.labels != IGNORED) & (self.positions > 0)
        return wanted.nonzero().squeeze(1) - 1

    @cached_property
    def targets(self) -> Tensor:
        return self.labels[self.sources + 1].long()

    def pieces(self, tokens: int) -> Iterator[Flat]:
        """Runs of whole documents of about `tokens` tokens each; a longer document is a piece of its own."""
        start, first, held = 0, 0, 0
        for index, length in enumerate(self.lengths):
            if held and held + length > tokens:
                yield self._part(start, start + held, first, index)
                start, first, held = start + held, index, 0
            held += length
        if held:
            yield self._part(start, start + held, first, len(self.lengths))

    def filled(self, multiple: int) -> Flat:
        """With a document of nothing at the end, so that the number of tokens is a multiple of `multiple`."""
        missing = -len(self.ids) % multiple
        if not missing:
            return self
        nothing = self.ids.new_zeros(missing)
        keys = torch.cat([self.keys, self.keys.new_zeros(missing)]) if self.keys is not None else None
        return Flat(
            torch.cat([self.ids, nothing]),
            torch.cat([self.labels, nothing + IGNORED]),
            torch.cat([self.positions, torch.arange(missing, device=self.ids.device)]),
            (*self.lengths, missing),
            keys,
        )

    def _part(self, start: int, end: int, first: int, last: int) -> Flat:
        keys = self.keys[start:end] if self.keys is not None else None
        span = slice(start, end)
        return Flat(self.ids[span], self.labels[span], self.positions[span], self.lengths[first:last], keys)

    def to(self, device: torch.device) -> Flat:
        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        keys = move(self.keys) if self.keys is not None else None
        return Flat(move(self.ids), move(self.labels), move(self.positions), self.lengths, keys)


def nothing() -> Flat:
    """A document that counts nothing."""
    return Flat(torch.zeros(2, dtype=torch.long), torch.full((2,), IGNORED), torch.arange(2), (2,))


def supervised(labels: Tensor, positions: Tensor) -> int:
    """How many tokens the loss is taken over."""
    return int(((labels != IGNORED) & (positions > 0)).sum())


def positions_of(lengths: Sequence[int]) -> Tensor:
    return torch.cat([torch.arange(length) for length in lengths])
