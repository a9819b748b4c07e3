"""Where the documents of a packed batch begin and end: attention never crosses from one into the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True)
class Documents:
    """The documents of a packed batch, end to end. `shared` says how many tokens of the last document without
    such tokens each one continues; it is empty where none does."""

    lengths: tuple[int, ...]
    device: torch.device
    shared: tuple[int, ...] = ()

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        return list(pairwise(starts))

    @cached_property
    def boundaries(self) -> Tensor:
        return self._sent([0, *(end for _, end in self.spans)], torch.int32)

    @cached_property
    def mask(self) -> Tensor:
        """The attention mask over the whole batch: its size is the square of the batch's."""
        numbers = [number for number, length in enumerate(self.lengths) for _ in range(length)]
        document = self._sent(numbers, torch.int64)
        return (document.unsqueeze(0) == document.unsqueeze(1)).tril()

    @cached_property
    def whole_lengths(self) -> tuple[int, ...]:
        """Of each document with what it shares."""
        return tuple(map(sum, zip(self.lengths, self.shared, strict=True))) if self.shared else self.lengths

    @cached_property
    def repeated(self) -> tuple[Tensor, Documents]:
        """Places of all documents' tokens, the shared ones before each; and the documents that they make."""
        places, whole = [], 0
        for (start, end), shared in zip(self.spans, self.shared, strict=True):
            if not shared:
                whole = start
            places += [torch.arange(whole, whole + shared), torch.arange(start, end)]
        whole_documents = Documents(self.whole_lengths, self.device)
        return torch.cat(places).to(self.device, non_blocking=True), whole_documents

    @cached_property
    def kept(self) -> Tensor:
        """Where the batch's own tokens stand among `repeated`."""
        ends = self.repeated[1].spans
        own = [torch.arange(end - length, end) for (_, end), length in zip(ends, self.lengths, strict=True)]
        return torch.cat(own).to(self.device, non_blocking=True)

    def _sent(self, values: list[int], dtype: torch.dtype) -> Tensor:
        """Made in the host's memory: a tensor made from a list on a GPU makes the host wait."""
        return torch.tensor(values, dtype=dtype).to(self.device, non_blocking=True)

    @cached_property
    def longest(self) -> int:
        return max(self.lengths)


# Queries [tokens, heads, width], keys and values with as many or fewer heads, documents, scale.
Attention = Callable[[Tensor, Tensor, Tensor, Documents, float], Tensor]


def heads_first(x: Tensor, start: int, end: int, repeat: int) -> Tensor:
    """[1, heads, length, width] of one document; grouped key heads are repeated for their queries."""
    part = x[start:end].transpose(0, 1)
    if repeat > 1:
        part = part.repeat_interleave(repeat, 0)
    return part.unsqueeze(0)
