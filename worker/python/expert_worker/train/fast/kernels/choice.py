"""One kernel for each operation of the fast path, chosen for a device and number format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor, nn

from expert_worker.errors import BadInput

from ..weights import is_4bit
from .adapted_linear import (
    ADAPTED_HEADS,
    ADAPTED_LINEAR,
    ADAPTED_MLP,
    AdaptedHeads,
    AdaptedMlp,
    CardGroup,
    Copies,
    FixedLayers,
    FusedLayer,
    LayerKernels,
    Projection,
    join,
)
from .attention import ATTENTION, Attention, shared_beginnings
from .dequantize import DEQUANTIZE, Dequantize
from .dropout import DROPOUT, Dropout
from .head_loss import HEAD_LOSS, HeadLoss
from .registry import Kernel, Operation, Target
from .rms_norm import RMS_NORM, RmsNorm
from .rotary import ROTARY, Rotary
from .swiglu import SWIGLU, SwiGlu
from .verdicts import NOTHING, Refused

Function = TypeVar("Function")

OPERATIONS: dict[str, Operation[Any, Any]] = {
    operation.name: operation
    for operation in (
        ATTENTION,
        HEAD_LOSS,
        ADAPTED_LINEAR,
        ADAPTED_HEADS,
        ADAPTED_MLP,
        DROPOUT,
        DEQUANTIZE,
        RMS_NORM,
        ROTARY,
        SWIGLU,
    )
}


@dataclass(frozen=True)
class Choice:
    """The kernel in use, and the others that run here."""

    chosen: str
    others: tuple[str, ...] = ()
    label: str | None = None
    # Of the kernels that would run here, those that this device refused, with the reason.
    refused: Mapping[str, str] = field(default_factory=dict)


class Kernels:
    """`wanted` names kernels by operation; every other operation takes its first kernel that runs and is not
    refused.
    """

    def __init__(
        self, target: Target, wanted: Mapping[str, str] | None = None, refused: Refused = NOTHING
    ) -> None:
        self._target, self._wanted, self._refused = target, dict(wanted or {}), refused
        if unknown := sorted(self._wanted.keys() - OPERATIONS.keys()):
            raise BadInput(
                f"`kernels` names {', '.join(unknown)}, which is not an operation of the fast path",
                hint=f"Operations: {', '.join(OPERATIONS)}.",
                code="unknown-kernel",
            )
        self.choices: dict[str, Choice] = {}
        self.copies = Copies()
        self.attention: Attention = shared_beginnings(self._choose(ATTENTION))
        self.head_loss: HeadLoss = self._choose(HEAD_LOSS)
        self.rms_norm: RmsNorm = self._choose(RMS_NORM)
        self.rotary: Rotary = self._choose(ROTARY)
        self.swiglu: SwiGlu = self._choose(SWIGLU)
        # Noted where a layer uses them.
        dropout: Callable[[], Dropout] = self._chosen(DROPOUT).function
        dequantize: Dequantize = self._chosen(DEQUANTIZE).function
        self._layer = LayerKernels(dropout(), dequantize)
        self._heads = self._chosen(ADAPTED_HEADS).function()
        self._mlp = self._chosen(ADAPTED_MLP).function()

    def projection(self, module: nn.Module) -> Projection:
        """A linear layer with its adapter, if it has one."""
        names = ADAPTED_LINEAR.names(module)
        several = len(names) > 1
        wanted = self._wanted.get(ADAPTED_LINEAR.name) if several else None
        kernel = ADAPTED_LINEAR.choose(module, wanted, self._refused.of(ADAPTED_LINEAR.name))
        if several or ADAPTED_LINEAR.name not in self.choices:
            self._note(ADAPTED_LINEAR, kernel, names)
        made = kernel.function(module, self._layer)
        if isinstance(made, FusedLayer) and made.takes_kernels:
            if made.dropout() is not None:
                self._note_chosen(DROPOUT)
            if is_4bit(made.base):
                self._note_chosen(DEQUANTIZE)
        return made

    def fixed(self, modules: Sequence[nn.Module]) -> FixedLayers:
        """Linear layers that take the same input, with their adapters as they are now."""
        return FixedLayers(modules, self._target.dtype, self._layer)

    def joined(self, projections: Sequence[Projection]) -> CardGroup | None:
        """Layers that take the same input as one, where their kernel has a way to."""
        return join(projections, self.copies)

    def heads(
        self, group: CardGroup | None, norms: Sequence[tuple[Tensor, float]], width: int
    ) -> AdaptedHeads | None:
        """Queries, keys and values with their norms and positions, where a kernel computes them as one."""
        if group is None or not AdaptedHeads.fits(group, norms):
            return None
        self._note_chosen(ADAPTED_HEADS)
        return None if self._heads is None else AdaptedHeads(self._heads, group, norms, width)

    def mlp(self, into: CardGroup | None, out: Projection) -> AdaptedMlp | None:
        """A layer's MLP, where a kernel computes it as one."""
        if into is None or not isinstance(out, CardGroup) or not AdaptedMlp.fits(into, out):
            return None
        self._note_chosen(ADAPTED_MLP)
        return None if self._mlp is None else AdaptedMlp(self._mlp, into, out)

    def _choose(self, operation: Operation[Target, Function]) -> Function:
        self._note_chosen(operation)
        return self._chosen(operation).function

    def _chosen(self, operation: Operation[Target, Function]) -> Kernel[Target, Function]:
        name = operation.name
        return operation.choose(self._target, self._wanted.get(name), self._refused.of(name))

    def _note_chosen(self, operation: Operation[Target, Any]) -> None:
        """Once, though every layer says that it uses it."""
        if operation.name not in self.choices:
            self._note(operation, self._chosen(operation), operation.names(self._target))

    def _note(self, operation: Operation[Any, Any], kernel: Kernel[Any, Any], names: list[str]) -> None:
        others = tuple(name for name in names if name != kernel.name)
        refused = {name: why for name, why in self._refused.of(operation.name).items() if name in others}
        self.choices[operation.name] = Choice(kernel.name, others, kernel.label, refused)
