"""LoRA on a GPU: layers with the same input as one linear layer, whose outputs are side by side.

A launch costs the host microseconds, and one for each matrix is what most of a step's launches would be. So A
and B are read from copies that are made once per optimizer step, scales are factors of products, gradients
are written where the optimizer reads them, and base weights that are one below the other are one product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ...dropout import Draw
from ...weights import stacked
from ..matmul import product_into
from ..registry import Kernel
from .copies import Copies, add_gradients
from .layer import LayerKernels, matrices, parts, variant
from .lora import FusedLora
from .narrow import Narrow

# The tests add the CPU.
DEVICES = {"cuda"}
# Of quantized weights that are read for one product instead of one each: the product of a large one takes
# longer than its launch.
AT_ONCE = 64 << 20


@dataclass(frozen=True)
class CardLora(FusedLora):
    """For a `CardGroup`. Called by itself it makes its copies each time."""

    takes_kernels: ClassVar[bool] = True

    def __call__(self, x: Tensor) -> Tensor:
        return CardGroup((self,), Copies())(x)


@dataclass(frozen=True)
class _Run:
    """Layers of equal shape: which they are, and their columns of the output and of the low-rank product."""

    first: int
    end: int
    columns: slice
    ranks: slice

    def split(self, wide: Tensor) -> Tensor:
        """A matrix for each layer, of a matrix with their columns side by side."""
        count = self.end - self.first
        return wide if count == 1 else wide.view(len(wide), count, -1).transpose(0, 1)

    def of(self, stack: Tensor) -> Tensor:
        return stack[0] if self.end - self.first == 1 else stack


class CardGroup:
    """Layers that take the same input: [tokens, inputs] -> [tokens, all their outputs]."""

    def __init__(self, layers: Sequence[CardLora], copies: Copies) -> None:
        self.layers = tuple(layers)
        self.copied = copies.of(layers)
        self.widths = self.copied.outputs
        self.bases = [layer.base for layer in layers]
        self._whole = stacked(self.bases)
        self._columns = list(pairwise([0, *accumulate(self.widths)]))
        self.narrow = Narrow(self.copied, layers[0].kernels.dropout)
        ranks = list(pairwise([0, *accumulate(self.copied.ranks)]))
        self.runs = [
            _Run(
                first,
                end,
                slice(self._columns[first][0], self._columns[end - 1][1]),
                slice(ranks[first][0], ranks[end - 1][1]),
            )
            for first, end in self.copied.runs
        ]

    def __call__(self, x: Tensor) -> Tensor:
        trained = [matrix for layer in self.layers for matrix in layer.matrices()]
        result: Tensor = _OnCard.apply(x, self, [layer.draw(x) for layer in self.layers], *trained)
        return result

    def of_bases(self, x: Tensor) -> Tensor:
        whole = self._at_once(x.dtype)
        if whole is not None:
            out = x @ whole.t()
        else:
            out = x.new_empty((x.shape[0], sum(self.widths)))
            for layer, (start, end) in zip(self.layers, self._columns, strict=True):
                torch.mm(x, layer.weight(x.dtype).t(), out=out[:, start:end])
        for base, (start, end) in zip(self.bases, self._columns, strict=True):
            if isinstance(base.bias, Tensor):
                out[:, start:end].add_(base.bias.detach())
        return out

    def through_bases(self, grad: Tensor) -> Tensor:
        """The gradient of their input."""
        whole = self._at_once(grad.dtype)
        if whole is not None:
            return grad @ whole
        (start, end), *others = self._columns
        to_x = grad[:, start:end] @ self.layers[0].weight(grad.dtype)
        for layer, (start, end) in zip(self.layers[1:], others, strict=True):
            to_x.addmm_(grad[:, start:end], layer.weight(grad.dtype))
        return to_x

    def _at_once(self, dtype: torch.dtype) -> Tensor | None:
        """All weights one below the other, for one product; None where they would take too much memory."""
        if self._whole is not None and self._whole.dtype == dtype:
            return self._whole
        like = self.layers[0].matrices()[0]
        shape = (sum(self.widths), like.shape[1])
        if len(self.layers) == 1 or shape[0] * shape[1] * dtype.itemsize > AT_ONCE:
            return None
        made = like.new_empty(shape, dtype=dtype)
        for layer, part in zip(self.layers, torch.split(made, list(self.widths)), strict=True):
            layer.weight(dtype, part)
        return made


class _OnCard(torch.autograd.Function):
    """A and B are arguments so that autograd comes back to here, where their gradients are added to them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: CardGroup, draws: Sequence[Draw], *_trained: Tensor) -> Tensor:
        down, ups = group.copied.of(x.dtype)
        out = group.of_bases(x)
        narrow = group.narrow.project(x, down, group.narrow.spans(draws))
        scales = [
            layer.scale / (1 - draw.share if draw.keys is not None else 1)
            for layer, draw in zip(group.layers, draws, strict=True)
        ]
        for run, up in zip(group.runs, ups, strict=True):
            own, part = run.split(out[:, run.columns]), run.split(narrow[:, run.ranks])
            product_into(own, part, run.of(up).mT, scales[run.first], keep=True)
        ctx.save_for_backward(x, narrow)
        ctx.group, ctx.draws, ctx.scales = group, draws, scales
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow = ctx.saved_tensors
        group, draws, scales = ctx.group, ctx.draws, ctx.scales
        down, ups = group.copied.of(x.dtype)
        grad, back, trained = grad.contiguous(), torch.empty_like(narrow), group.copied.ups()
        for run, up in zip(group.runs, ups, strict=True):
            own, scale = run.split(grad[:, run.columns]), scales[run.first]
            product_into(run.split(back[:, run.ranks]), own, run.of(up), scale)
            part = run.split(narrow[:, run.ranks])
            add_gradients(trained[run.first : run.end], own.mT, part, scale)
        spans = group.narrow.spans(draws)
        group.narrow.add_to_downs(back, x, spans)
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = group.through_bases(grad)
            group.narrow.add_through(to_x, back, down, spans)
        return to_x, None, None, *(None for _ in range(2 * len(group.layers)))


def join(layers: Sequence[object], copies: Copies) -> CardGroup | None:
    """Layers that take the same input as one, if all are LoRA on a GPU."""
    ours = [layer for layer in layers if isinstance(layer, CardLora)]
    return CardGroup(ours, copies) if len(ours) == len(layers) else None


def _on_card(module: nn.Module, kernels: LayerKernels) -> CardLora:
    return CardLora(*parts(module), kernels=kernels)


def _runs(module: nn.Module) -> bool:
    if variant(module) != "lora":
        return False
    _, _, adapter, _ = parts(module)
    return all(
        type(matrix) is nn.Parameter and matrix.device.type in DEVICES and matrix.requires_grad
        for matrix in matrices(module, adapter)
    )


LORA_ON_CARD = Kernel("lora_on_card", _on_card, _runs)
