"""Batches of a few fixed shapes, at fixed addresses: what a CUDA graph can be captured for.

Padding adds nothing to loss and gradients: its tokens are documents at the end without a supervised token,
further documents are empty, and further supervised rows have an ignored target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from .batch import IGNORED, PackedBatch

# The unit of a shape, beside the largest batch and in tokens: products are fastest in multiples of 64 rows.
UNITS, FEWEST = 16, 64
# A batch takes a known shape that has at most so many units more than it needs.
SPARE_UNITS = 2
MOST_SHAPES = 8
_FEWEST_DOCUMENTS = 16
_ALIGNED = 16


class Shape(NamedTuple):
    """`longest` is the most tokens that a document may have."""

    tokens: int
    supervised: int
    documents: int
    longest: int

    def holds(self, batch: PackedBatch) -> bool:
        padding = self.tokens - len(batch.ids)
        if padding < 0 or len(batch.sources) > self.supervised or max(batch.lengths) > self.longest:
            return False
        return len(batch.lengths) + -(-padding // self.longest) <= self.documents

    def pad(self, batch: PackedBatch) -> PackedBatch:
        """A batch in the host's memory, which the shape must hold."""
        lengths = self.lengths(batch.lengths)
        padding = lengths[len(batch.lengths) :]
        missing, unsupervised = sum(padding), self.supervised - len(batch.sources)
        zeros = batch.ids.new_zeros(missing)
        padded = PackedBatch(
            torch.cat([batch.ids, zeros]),
            torch.cat([batch.labels, zeros + IGNORED]),
            torch.cat([batch.positions, *(torch.arange(length) for length in padding if length)]),
            lengths,
            torch.cat([batch.keys, batch.keys.new_zeros(missing)]) if batch.keys is not None else None,
            batch.step,
        )
        # Each a different token: rows that are added to one token's gradient wait for each other.
        ignored = torch.arange(self.tokens - unsupervised, self.tokens)
        padded.__dict__.update(
            sources=torch.cat([batch.sources, ignored]),
            targets=torch.cat([batch.targets, torch.full_like(ignored, IGNORED)]),
        )
        return padded

    def lengths(self, documents: Sequence[int]) -> tuple[int, ...]:
        """Of these documents, those of the padding, and empty ones."""
        whole, rest = divmod(self.tokens - sum(documents), self.longest)
        padded = (*documents, *[self.longest] * whole, *([rest] if rest else []))
        return (*padded, *[0] * (self.documents - len(padded)))


class Shapes:
    """The shapes in use: few, whatever the number of different batches."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._unit = 0
        self._known: list[Shape] = []

    def of(self, batch: PackedBatch) -> Shape | None:
        """None where no known shape holds the batch, and there are enough of them. Where documents share a
        beginning, the places of its copies are different in each batch."""
        if batch.shared or max(batch.lengths) > self._longest:
            return None
        if not self._unit:
            # The memory probe's: no micro-batch has more tokens.
            self._unit = -(-len(batch.ids) // (UNITS * FEWEST)) * FEWEST
        least = self._least(batch)
        most = SPARE_UNITS * self._unit
        found = [shape for shape in self._known if shape.holds(batch)]
        near = [
            shape
            for shape in found
            if shape.tokens <= least.tokens + most and shape.supervised <= least.supervised + most
        ]
        if near or (found and len(self._known) >= MOST_SHAPES):
            return min(near or found)
        if len(self._known) >= MOST_SHAPES:
            return None
        self._known.append(least)
        return least

    def _least(self, batch: PackedBatch) -> Shape:
        tokens, supervised = (
            max(1, -(-count // self._unit)) * self._unit for count in (len(batch.ids), len(batch.sources))
        )
        documents = len(batch.lengths) + -(-(tokens - len(batch.ids)) // self._longest)
        documents = max(_FEWEST_DOCUMENTS, 1 << (documents - 1).bit_length())
        # The padding's rows are different tokens.
        return Shape(tokens, min(supervised, tokens), documents, self._longest)


@dataclass(frozen=True)
class StaticBatch(PackedBatch):
    """Tensors at fixed addresses, which `fill` writes to. `lengths` are not those of any batch."""

    shape: Shape | None = None
    # What the loss's gradient begins with.
    scale: Tensor | None = None
    memory: Tensor | None = None

    @classmethod
    def of(cls, shape: Shape, device: torch.device, *, with_keys: bool) -> StaticBatch:
        memory = torch.empty(_layout(shape)[-1], dtype=torch.uint8, device=device)
        parts = _parts(memory, shape)
        made = cls(
            parts.ids,
            parts.labels,
            parts.positions,
            shape.lengths(()),
            parts.keys if with_keys else None,
            shape=shape,
            scale=parts.scale[0],
            memory=memory,
        )
        made.documents.__dict__.update(boundaries=parts.boundaries, longest=shape.longest)
        made.__dict__.update(sources=parts.sources, targets=parts.targets)
        return made

    def fill(self, batch: PackedBatch, scale: float) -> None:
        """By one copy, for which the host does not wait."""
        assert self.shape is not None and self.memory is not None
        padded = self.shape.pad(batch)
        # torch uses pinned memory again when its copy is done.
        sent = torch.empty(self.memory.shape, dtype=torch.uint8, pin_memory=self.memory.device.type == "cuda")
        parts = _parts(sent, self.shape)
        parts.ids.copy_(padded.ids)
        parts.labels.copy_(padded.labels)
        parts.positions.copy_(padded.positions)
        parts.sources.copy_(padded.sources)
        parts.targets.copy_(padded.targets)
        parts.boundaries.copy_(torch.tensor([0, *accumulate(padded.lengths)], dtype=torch.int32))
        if padded.keys is not None:
            parts.keys.copy_(padded.keys)
        parts.scale.fill_(scale)
        self.memory.copy_(sent, non_blocking=True)


class _Parts(NamedTuple):
    ids: Tensor
    labels: Tensor
    positions: Tensor
    sources: Tensor
    targets: Tensor
    keys: Tensor
    boundaries: Tensor
    scale: Tensor


def _counts(shape: Shape) -> list[tuple[int, torch.dtype]]:
    """As in `_Parts`."""
    return [
        *[(shape.tokens, torch.int64)] * 3,
        *[(shape.supervised, torch.int64)] * 2,
        (shape.tokens, torch.int32),
        (shape.documents + 1, torch.int32),
        (1, torch.float32),
    ]


def _layout(shape: Shape) -> list[int]:
    """Where each part starts, and the end of the last."""
    sizes = [-(-count * dtype.itemsize // _ALIGNED) * _ALIGNED for count, dtype in _counts(shape)]
    return [0, *accumulate(sizes)]


def _parts(memory: Tensor, shape: Shape) -> _Parts:
    return _Parts(
        *(
            memory[start : start + count * dtype.itemsize].view(dtype)
            for start, (count, dtype) in zip(_layout(shape), _counts(shape), strict=False)
        )
    )
