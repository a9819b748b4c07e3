"""Several experts on one frozen base in one pass: attention, norms and the base's products see one packed
batch; adapters see their own expert's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from .batch import PackedBatch
from .decoder import FastDecoder, Layer
from .dropout import Place, PlaceByThread, Tokens
from .kernels.adapted_linear import FusedLora, GroupedLora
from .kernels.head_loss import row_losses


class GroupPlace(PlaceByThread):
    """Which tokens are whose, and the experts' own places, whose modules draw for all tokens: the group's
    layers take what is theirs."""

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__()
        self._places = places
        self._bounds: Sequence[int] = ()

    def enter(self, tokens: Tokens) -> None:
        super().enter(tokens)
        self._bounds = (0, *accumulate(tokens.of_experts))
        for place in self._places:
            place.enter(tokens)

    def bounds(self) -> Sequence[int]:
        return self._bounds


class GroupDecoder(FastDecoder):
    """Over the same base as each of `experts`, and with their adapters."""

    def __init__(self, experts: Sequence[FastDecoder]) -> None:
        first = experts[0]
        self._count = len(experts)
        self.body, self.head, self.dtype = first.body, first.head, first.dtype
        self.kernels, self.norm, self.checkpointing = first.kernels, first.norm, first.checkpointing
        self.neftune, self.between = 0.0, first.between
        place = GroupPlace([expert.place for expert in experts])
        self.place = place
        rows = zip(*(expert.layers for expert in experts), strict=True)
        self.layers = [_layer(layers, place) for layers in rows]

    def losses(self, batch: PackedBatch) -> Tensor:
        """Each expert's, summed over its supervised tokens."""
        if batch.sources.numel() == 0:
            return torch.zeros(self._count)
        x, targets, tokens = self._hidden(batch)
        rows = row_losses(x, self.head.weight.detach(), targets)
        return torch.stack([part.sum() for part in torch.split(rows, list(tokens.of_experts))])

    def _tokens(self, batch: PackedBatch, chosen: Tensor | None = None) -> Tokens:
        return (
            super()._tokens(batch, chosen)._replace(of_experts=batch.tokens_of_experts(self._count, chosen))
        )


def _layer(layers: Sequence[Layer], place: GroupPlace) -> Layer:
    """The same layer of each expert's model as one."""
    together = copy(layers[0])
    for name in Layer.PROJECTIONS:
        setattr(together, name, _projection([getattr(layer, name) for layer in layers], place))
    return together


def _projection(projections: Sequence[Any], place: GroupPlace) -> Any:
    """Where no expert adapts it, the base's own."""
    adapted = tuple(it if isinstance(it, FusedLora) else None for it in projections)
    bases = [it.base for it in adapted if it is not None]
    return GroupedLora(bases[0], adapted, place.bounds) if bases else projections[0]
