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
        result: Tensor = _OnCard.apply(x, self, self.draws(x.shape[-1]), *self.trained())
        return result

    def project(self, x: Tensor, draws: Sequence[Draw]) -> Tensor:
        """dropout(x) A^T of all layers, side by side."""
        down, _ = self.copied.of(x.dtype)
        return self.narrow.project(x, down, self.narrow.spans(draws))

    def add_to_downs(self, back: Tensor, x: Tensor, draws: Sequence[Draw]) -> None:
        """To the gradients of A."""
        self.narrow.add_to_downs(back, x, self.narrow.spans(draws))

    @property
    def is_uniform(self) -> bool:
        """Whether all layers have one rank and one scale."""
        return (
            len({(layer.scale, rank) for layer, rank in zip(self.layers, self.copied.ranks, strict=True)})
            == 1
        )

    def draws(self, width: int) -> list[Draw]:
        """Of an input of the current tokens."""
        return [layer.draw(width) for layer in self.layers]

    def trained(self) -> list[Tensor]:
        """A and B of each layer."""
        return [matrix for layer in self.layers for matrix in layer.matrices()]

    def outputs(self, x: Tensor, narrow: Tensor, draws: Sequence[Draw]) -> Tensor:
        """The adapters' part first: the base's product then adds to what it writes anyway."""
        out = x.new_empty((x.shape[0], sum(self.widths)))
        self.write_adapted(narrow, draws, out)
        return self.of_bases(x, out)

    def write_adapted(self, narrow: Tensor, draws: Sequence[Draw], out: Tensor) -> None:
        """The adapters' part of the outputs."""
        _, ups = self.copied.of(out.dtype)
        for run, up, scale in zip(self.runs, ups, self.scales(draws), strict=True):
            own, part = run.split(out[:, run.columns]), run.split(narrow[:, run.ranks])
            product_into(own, part, run.of(up).mT, scale)

    def of_bases(self, x: Tensor, added_to: Tensor | None = None) -> Tensor:
        whole = self._at_once(x.dtype)
        if whole is not None:
            out = x @ whole.t() if added_to is None else added_to.addmm_(x, whole.t())
        else:
            keep = added_to is not None
            out = x.new_empty((x.shape[0], sum(self.widths))) if added_to is None else added_to
            for layer, (start, end) in zip(self.layers, self._columns, strict=True):
                product_into(out[:, start:end], x, layer.weight(x.dtype).t(), 1.0, keep=keep)
        for base, (start, end) in zip(self.bases, self._columns, strict=True):
            if isinstance(base.bias, Tensor):
                out[:, start:end].add_(base.bias.detach())
        return out

    def back(self, grad: Tensor, draws: Sequence[Draw]) -> Tensor:
        """The gradient of `narrow`."""
        _, ups = self.copied.of(grad.dtype)
        back = grad.new_empty((len(grad), sum(self.copied.ranks)))
        for run, up, scale in zip(self.runs, ups, self.scales(draws), strict=True):
            product_into(run.split(back[:, run.ranks]), run.split(grad[:, run.columns]), run.of(up), scale)
        return back

    def add_to_ups(self, grad: Tensor, narrow: Tensor, draws: Sequence[Draw]) -> None:
        """To the gradients of B."""
        trained = self.copied.ups()
        for run, scale in zip(self.runs, self.scales(draws), strict=True):
            own, part = run.split(grad[:, run.columns]), run.split(narrow[:, run.ranks])
            add_gradients(trained[run.first : run.end], own.mT, part, scale)

    def to_input(self, grad: Tensor, back: Tensor, draws: Sequence[Draw]) -> Tensor:
        """The gradient of the input: without dropout the adapters' part first, as in `outputs`."""
        if all(draw.keys is None for draw in draws):
            down, _ = self.copied.of(grad.dtype)
            return self.through_bases(grad, back @ down)
        to_x = self.through_bases(grad)
        self.add_through(to_x, back, draws)
        return to_x

    def add_through(self, to_x: Tensor, back: Tensor, draws: Sequence[Draw]) -> None:
        """The gradient that comes to the input through the adapters."""
        down, _ = self.copied.of(to_x.dtype)
        self.narrow.add_through(to_x, back, down, self.narrow.spans(draws))

    def through_bases(self, grad: Tensor, added_to: Tensor | None = None) -> Tensor:
        """The gradient of their input."""
        whole = self._at_once(grad.dtype)
        if whole is not None:
            return grad @ whole if added_to is None else added_to.addmm_(grad, whole)
        for layer, (start, end) in zip(self.layers, self._columns, strict=True):
            part, weight = grad[:, start:end], layer.weight(grad.dtype)
            added_to = part @ weight if added_to is None else added_to.addmm_(part, weight)
        assert added_to is not None
        return added_to

    def scales(self, draws: Sequence[Draw]) -> list[float]:
        """Of each run. Dropout scales the inputs that it keeps."""
        return [self.layers[run.first].scale / (1 - draws[run.first].share) for run in self.runs]

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
        narrow = group.project(x, draws)
        ctx.save_for_backward(x, narrow)
        ctx.group, ctx.draws = group, draws
        return group.outputs(x, narrow, draws)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, narrow = ctx.saved_tensors
        group, draws, grad = ctx.group, ctx.draws, grad.contiguous()
        back = group.back(grad, draws)
        group.add_to_ups(grad, narrow, draws)
        group.add_to_downs(back, x, draws)
        to_x = group.to_input(grad, back, draws) if ctx.needs_input_grad[0] else None
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


LORA_ON_CARD = Kernel("lora_on_card", _on_card, _runs, saves_memory=True)
