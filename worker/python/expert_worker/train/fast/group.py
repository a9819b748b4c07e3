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
from .kernels.adapted_linear import CardGroup, FusedLora, GroupedLora, GroupedOnCard
from .kernels.choice import Kernels
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
        own = [expert.kernels for expert in experts]
        self.layers = [_layer(layers, own, place) for layers in rows]

    def losses(self, batch: PackedBatch) -> Tensor:
        """Each expert's, summed over its supervised tokens."""
        if batch.sources.numel() == 0:
            return torch.zeros(self._count, device=batch.ids.device)
        x, targets, tokens = self._hidden(batch)
        rows = row_losses(x, self.head.weight.detach(), targets, self.kernels.head_loss)
        return torch.stack([part.sum() for part in torch.split(rows, list(tokens.of_experts))])

    def _tokens(self, batch: PackedBatch, chosen: Tensor | None = None) -> Tokens:
        if chosen is None:
            counts = batch.tokens_of_experts(self._count)
        else:
            counts = batch.supervised_of_experts(self._count)
            # Those that fill it up are the last token once more.
            last = max(number for number, count in enumerate(counts) if count)
            counts[last] += len(chosen) - sum(counts)
        return super()._tokens(batch, chosen)._replace(of_experts=tuple(counts))


def _layer(layers: Sequence[Layer], kernels: Sequence[Kernels], place: GroupPlace) -> Layer:
    """The same layer of each expert's model as one."""
    together = copy(layers[0])
    together.qkv = _joined([layer.qkv for layer in layers], place)
    together.gate_up = _joined([layer.gate_up for layer in layers], place)
    # Their kernels add the LoRA of one expert.
    together.heads = together.adapted_mlp = None
    for name in together.separate():
        setattr(together, name, _projection([getattr(layer, name) for layer in layers], kernels, place))
    return together


def _joined(groups: Sequence[CardGroup | GroupedOnCard | None], place: GroupPlace) -> GroupedOnCard | None:
    """Layers that every expert's kernel computes as one."""
    own = tuple(it for it in groups if isinstance(it, CardGroup))
    return GroupedOnCard(own, place.bounds) if len(own) == len(groups) else None


def _projection(projections: Sequence[Any], kernels: Sequence[Kernels], place: GroupPlace) -> Any:
    """Where no expert adapts it, the base's own."""
    on_card = tuple(
        it if isinstance(it, CardGroup) else own.joined((it,))
        for it, own in zip(projections, kernels, strict=True)
    )
    if any(on_card):
        return GroupedOnCard(on_card, place.bounds)
    adapted = tuple(it if isinstance(it, FusedLora) else None for it in projections)
    bases = [it.base for it in adapted if it is not None]
    return GroupedLora(bases[0], adapted, place.bounds) if bases else projections[0]
