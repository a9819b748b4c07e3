"""One kernel for each operation of the fast path, chosen for a device and number format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from expert_worker.errors import BadInput

from .adapted_linear import ADAPTED_LINEAR, Projection
from .attention import ATTENTION, Attention
from .head_loss import HEAD_LOSS, HeadLoss
from .registry import Kernel, Operation, Target
from .rms_norm import RMS_NORM, RmsNorm
from .rotary import ROTARY, Rotary
from .swiglu import SWIGLU, SwiGlu

Function = TypeVar("Function")

OPERATIONS: dict[str, Operation[Any, Any]] = {
    operation.name: operation
    for operation in (ATTENTION, HEAD_LOSS, ADAPTED_LINEAR, RMS_NORM, ROTARY, SWIGLU)
}


@dataclass(frozen=True)
class Choice:
    """The kernel in use, and the others that run here."""

    chosen: str
    others: tuple[str, ...] = ()
    label: str | None = None


class Kernels:
    """`wanted` names kernels by operation; every other operation takes its first kernel that runs."""

    def __init__(self, target: Target, wanted: Mapping[str, str] | None = None) -> None:
        self._target, self._wanted = target, dict(wanted or {})
        if unknown := sorted(self._wanted.keys() - OPERATIONS.keys()):
            raise BadInput(
                f"`kernels` names {', '.join(unknown)}, which is not an operation of the fast path",
                hint=f"Operations: {', '.join(OPERATIONS)}.",
                code="unknown-kernel",
            )
        self.choices: dict[str, Choice] = {}
        self.attention: Attention = self._choose(ATTENTION)
        self.head_loss: HeadLoss = self._choose(HEAD_LOSS)
        self.rms_norm: RmsNorm = self._choose(RMS_NORM)
        self.rotary: Rotary = self._choose(ROTARY)
        self.swiglu: SwiGlu = self._choose(SWIGLU)

    def projection(self, module: nn.Module) -> Projection:
        """A linear layer with its adapter, if it has one."""
        names = ADAPTED_LINEAR.names(module)
        several = len(names) > 1
        kernel = ADAPTED_LINEAR.choose(module, self._wanted.get(ADAPTED_LINEAR.name) if several else None)
        if several or ADAPTED_LINEAR.name not in self.choices:
            self._note(ADAPTED_LINEAR, kernel, names)
        return kernel.function(module)

    def _choose(self, operation: Operation[Target, Function]) -> Function:
        kernel = operation.choose(self._target, self._wanted.get(operation.name))
        self._note(operation, kernel, operation.names(self._target))
        return kernel.function

    def _note(self, operation: Operation[Any, Any], kernel: Kernel[Any, Any], names: list[str]) -> None:
        others = tuple(name for name in names if name != kernel.name)
        self.choices[operation.name] = Choice(kernel.name, others, kernel.label)
