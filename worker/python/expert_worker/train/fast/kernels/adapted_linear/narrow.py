"""Products of layers that take the same input with their A, one below the other, with dropout or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from ...dropout import Draw
from ..dropout import Dropout, Drops
from .copies import Copied, add_gradients, into_gradients, runs


@dataclass(frozen=True)
class Span:
    """Layers that follow each other: without dropout all, with it those of equal rank that drop the same
    share."""

    first: int
    end: int
    # Their columns of a narrow matrix, which are their rows of A.
    ranks: slice
    # What they drop of their input, if they do.
    drops: Drops | None


class Narrow:
    def __init__(self, copied: Copied, dropout: Dropout) -> None:
        self._copied, self._dropout = copied, dropout
        self._ends = [0, *accumulate(copied.ranks)]
        self._drawn: list[Tensor | None] = []
        self._runs: list[tuple[int, int, Tensor | None]] = []
        self._all_kept = [Span(0, len(copied.ranks), slice(0, self._ends[-1]), None)]

    def spans(self, draws: Sequence[Draw]) -> list[Span]:
        drawn = [draw.columns for draw in draws]
        if all(columns is None for columns in drawn):
            # An evaluation between steps. The stack of the steps stays: a captured graph reads it.
            return self._all_kept
        if [*map(id, drawn)] != [*map(id, self._drawn)]:
            self._drawn, self._runs = drawn, self._stacked(draws)
        return [
            Span(first, end, slice(self._ends[first], self._ends[end]), _drops(draws[first], columns))
            for first, end, columns in self._runs
        ]

    def project(self, x: Tensor, down: Tensor, spans: Sequence[Span]) -> Tensor:
        """dropout(x) A^T."""
        out = x.new_empty((len(x), len(down)))
        for span in spans:
            if span.drops is None:
                torch.mm(x, down[span.ranks].t(), out=out[:, span.ranks])
            else:
                self._dropout.project(x, down[span.ranks], span.drops, out[:, span.ranks])
        return out

    def add_to_downs(self, back: Tensor, x: Tensor, spans: Sequence[Span]) -> None:
        """To the gradients of A."""
        for span in spans:
            downs, own = self._copied.downs()[span.first : span.end], back[:, span.ranks]
            if span.drops is None:
                add_gradients(downs, own.t(), x, 1.0)
            else:
                self._add_dropped(downs, own, x, span.drops)

    def _add_dropped(self, downs: Sequence[Tensor], back: Tensor, x: Tensor, drops: Drops) -> None:
        def write(out: Tensor, keep: bool) -> None:
            self._dropout.add_to_downs(back, x, drops, out, keep=keep)

        into_gradients(downs, (back.shape[1], x.shape[1]), write)

    def add_through(self, to_x: Tensor, back: Tensor, down: Tensor, spans: Sequence[Span]) -> None:
        """The gradient that comes to the input through A."""
        for span in spans:
            own, rows = back[:, span.ranks], down[span.ranks]
            if span.drops is None:
                to_x.addmm_(own, rows)
            else:
                self._dropout.add_through_downs(to_x, own, rows, span.drops)

    def _stacked(self, draws: Sequence[Draw]) -> list[tuple[int, int, Tensor | None]]:
        """Where each span begins and ends, and the column keys of its layers."""
        kinds: list[tuple[object, ...]] = [
            (None,) if draw.columns is None else (rank, draw.share)
            for rank, draw in zip(self._copied.ranks, draws, strict=True)
        ]
        return [(first, end, _one_below_the_other(draws[first:end])) for first, end in runs(kinds)]


def _one_below_the_other(draws: Sequence[Draw]) -> Tensor | None:
    """The layers keep theirs as parts of it, so that memory has one of each."""
    columns = [draw.columns for draw in draws if draw.columns is not None]
    if not columns:
        return None
    stack = torch.stack(columns)
    for own, part in zip(columns, stack, strict=True):
        own.data = part
    return stack


def _drops(draw: Draw, columns: Tensor | None) -> Drops | None:
    if draw.keys is None or columns is None:
        return None
    return Drops(draw.keys, columns, draw.share)
