"""The choice among the implementations (kernels) of one operation.

To add a kernel, write its file and list it in its operation. `tests/worker/train/test_kernels.py` compares
every kernel that runs on the machine with transformers and peft, and `expert-cli bench ablate` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from expert_worker.errors import BadInput

Subject_contra = TypeVar("Subject_contra", contravariant=True)
Function_co = TypeVar("Function_co", covariant=True)


@dataclass(frozen=True)
class Target:
    """Where the operations of a model run, and in which format."""

    device: torch.device
    dtype: torch.dtype
    flash_attention: bool = False
    # torch's compiler makes its own kernels of what it can read.
    compiled: bool = False


def everywhere(_subject: object) -> bool:
    return True


@dataclass(frozen=True)
class Kernel(Generic[Subject_contra, Function_co]):
    name: str
    function: Function_co
    runs: Callable[[Subject_contra], bool] = everywhere
    label: str | None = None
    """A sentence for the log; None if users need not know."""
    saves_memory: bool = False
    """Plans count on it: without it a step may need more than twice the memory, however fast."""


class Operation(Generic[Subject_contra, Function_co]):
    """Its kernels, the best first; the last runs everywhere and is the reference for the others."""

    def __init__(self, name: str, kernels: Sequence[Kernel[Subject_contra, Function_co]]) -> None:
        self.name, self.kernels = name, tuple(kernels)

    def choose(
        self, subject: Subject_contra, name: str | None = None, without: Container[str] = ()
    ) -> Kernel[Subject_contra, Function_co]:
        """The first that runs for `subject` and is not in `without`, or the one called `name`."""
        for kernel in self.kernels:
            is_wanted = kernel.name not in without if name is None else kernel.name == name
            if (is_wanted or (name is None and kernel is self.kernels[-1])) and kernel.runs(subject):
                return kernel
        raise BadInput(
            f"The kernel {name} of {self.name} is unknown or does not run here",
            hint=f"Kernels that run here: {', '.join(self.names(subject))}.",
            code="unknown-kernel",
        )

    def names(self, subject: Subject_contra) -> list[str]:
        """All that run for `subject`."""
        return [kernel.name for kernel in self.kernels if kernel.runs(subject)]
