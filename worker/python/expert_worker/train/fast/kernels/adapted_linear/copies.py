"""Copies of the adapters' matrices in the format of the computation, made once per optimizer step, and
gradients that are added where the optimizer reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from ...weights import end_to_end
from ..matmul import product_into
from .layer import FusedLayer


class Copies:
    """Of all layers of a model: one copy in few launches, whatever their number."""

    def __init__(self) -> None:
        self._sets: list[Copied] = []
        self._valid = False

    def invalidate(self) -> None:
        """The trained parameters have changed."""
        self._valid = False

    def matrices(self) -> list[Tensor]:
        """Those that are copied: where their gradients follow each other, one product adds to several."""
        return [matrix for one in self._sets for matrix in (*one.downs(), *one.ups())]

    def of(self, layers: Sequence[FusedLayer]) -> Copied:
        """Of layers with the same input."""
        made = Copied(self, layers)
        self._sets.append(made)
        self._valid = False
        return made

    @torch.no_grad()
    def refresh(self, dtype: torch.dtype) -> None:
        if self._valid:
            return
        into: list[Tensor] = []
        source: list[Tensor] = []
        for one in self._sets:
            one.pair(dtype, into, source)
        torch._foreach_copy_(into, source)
        self._valid = True


class Copied:
    """`down` is the layers' A, one below the other; `ups` the B of each run of layers of equal shape:
    [layers, outputs, rank]. They are parts of one piece of memory: where all ranks are equal, `stacked_ups`
    has them one below the other."""

    def __init__(self, copies: Copies, layers: Sequence[FusedLayer]) -> None:
        self._copies, self._layers = copies, tuple(layers)
        pairs = [layer.matrices() for layer in layers]
        self.ranks = tuple(len(down) for down, _ in pairs)
        self.outputs = tuple(len(up) for _, up in pairs)
        self.runs = runs([(*up.shape, layer.scale) for layer, (_, up) in zip(layers, pairs, strict=True)])
        self._down, self._up = torch.empty(0), torch.empty(0)
        self._ups: list[Tensor] = []

    def of(self, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
        self._copies.refresh(dtype)
        return self._down, self._ups

    def stacked_ups(self, dtype: torch.dtype) -> Tensor:
        self._copies.refresh(dtype)
        return self._up.view(-1, self.ranks[0])

    def pair(self, dtype: torch.dtype, into: list[Tensor], source: list[Tensor]) -> None:
        """Each part of the copies, and what it is copied from."""
        downs, ups = self.downs(), self.ups()
        if self._down.dtype != dtype or self._down.device != downs[0].device or not self._ups:
            self._down = downs[0].new_empty((sum(self.ranks), downs[0].shape[1]), dtype=dtype)
            self._up = ups[0].new_empty(sum(up.numel() for up in ups), dtype=dtype)
            sizes = [sum(up.numel() for up in ups[start:end]) for start, end in self.runs]
            self._ups = [
                part.view(end - start, *ups[start].shape)
                for part, (start, end) in zip(torch.split(self._up, sizes), self.runs, strict=True)
            ]
        into += torch.split(self._down, list(self.ranks))
        source += downs
        into += [up for run in self._ups for up in run]
        source += ups

    def downs(self) -> list[Tensor]:
        return [layer.matrices()[0] for layer in self._layers]

    def ups(self) -> list[Tensor]:
        return [layer.matrices()[1] for layer in self._layers]


def runs(kinds: Sequence[tuple[object, ...]]) -> list[tuple[int, int]]:
    """Where each run of equal ones starts and ends."""
    starts = [at for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1]]
    return list(pairwise([*starts, len(kinds)]))


def add_gradients(parameters: Sequence[Tensor], left: Tensor, right: Tensor, scale: float) -> None:
    """Adds scale * left right to the parameters' gradients: one product over all their rows, or [parameters,
    rows, columns]."""

    def product(out: Tensor, keep: bool) -> None:
        product_into(out, left, right, scale, keep=keep)

    into_gradients(parameters, (*left.shape[:-1], right.shape[-1]), product)


def into_gradients(
    parameters: Sequence[Tensor], shape: Sequence[int], write: Callable[[Tensor, bool], None]
) -> None:
    """`write` gets a tensor of all their gradients, and whether to add to what is there.

    They are written where they are, in their format: autograd would take them in the format of the
    computation, cast them, and add them with one more launch for each parameter."""
    gradients = [parameter.grad for parameter in parameters]
    there = [gradient for gradient in gradients if gradient is not None]
    held = end_to_end(there) if len(there) == len(gradients) else None
    if held is not None:
        write(held.view(*shape), True)
        return
    made = parameters[0].new_empty(tuple(shape))
    write(made, False)
    parts = torch.split(made.view(-1), [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        own = part.view(parameter.shape)
        parameter.grad = own if parameter.grad is None else parameter.grad.add_(own)
