"""Passes of a base that is sharded over processes (FSDP2). Each pass gathers the weights layer by layer,
which needs all processes: one that runs out of memory in the middle would leave the others waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather

from expert_worker import memory_errors
from expert_worker.train import memory
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import PackedBatch, nothing
from expert_worker.train.fast.kernels.choice import Choice


@dataclass(frozen=True)
class Gathered:
    """One all-gather, without what was in it."""

    sent: int
    received: int
    dtype: torch.dtype
    device: torch.device
    group: distributed.ProcessGroup

    def issue(self) -> None:
        """For the others, whose pass is repeated as well: what they receive does not matter."""
        received = torch.empty(self.received, dtype=self.dtype, device=self.device)
        sent = torch.zeros(self.sent, dtype=self.dtype, device=self.device)
        DefaultAllGather()(received, sent, self.group)


class RecordedAllGather(DefaultAllGather):
    """Records what it has issued."""

    def __init__(self) -> None:
        super().__init__()
        self.issued: list[Gathered] = []

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: distributed.ProcessGroup,
        async_op: bool = False,
    ) -> distributed.Work | None:
        work = super().__call__(output_tensor, input_tensor, group, async_op)
        sizes = input_tensor.numel(), output_tensor.numel()
        self.issued.append(Gathered(*sizes, output_tensor.dtype, output_tensor.device, group))
        return work


class ShardedEngine:
    """An engine whose passes issue the same collectives in every process. One that runs out of memory issues
    those that are left and then raises MemoryError."""

    def __init__(self, inner: Engine, model: Any) -> None:
        self._inner = inner
        self._root: FSDPModule = model.get_base_model()
        self._gathers = RecordedAllGather()
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(self._gathers)
        self._of_a_pass: dict[str, tuple[Gathered, ...]] = {}
        # Recorded in passes without rows, which fit wherever a layer fits.
        self.backward(nothing(), 0.0)
        self.loss(nothing())
        for parameter in model.parameters():
            parameter.grad = None

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        return self._inner.to_device(batch)

    def backward(self, batch: PackedBatch, scale: float) -> Tensor:
        return self._pass("backward", lambda: self._inner.backward(batch, scale))

    def loss(self, batch: PackedBatch) -> Tensor:
        return self._pass("loss", lambda: self._inner.loss(batch))

    def parameters_changed(self) -> None:
        self._inner.parameters_changed()

    @property
    def kernels(self) -> Mapping[str, Choice]:
        return self._inner.kernels

    def _pass(self, kind: str, run: Callable[[], Tensor]) -> Tensor:
        # A pass without a backward leaves the root gathered and an order of prefetching: the collectives of
        # the next pass would be others.
        if self._of_a_pass:  # FSDP sets itself up in the first pass.
            self._root.reset_iter_state()
        self._gathers.issued.clear()
        try:
            result = run()
        except (RuntimeError, MemoryError) as error:
            if kind not in self._of_a_pass or not memory_errors.ran_out(error):
                raise
            reason = str(error)
        else:
            self._of_a_pass.setdefault(kind, tuple(self._gathers.issued))
            return result
        # Only here, where the error no longer holds the pass's tensors.
        issued = len(self._gathers.issued)
        self._root.reset_iter_state()
        memory.release()
        for gathered in self._of_a_pass[kind][issued:]:
            gathered.issue()
        raise MemoryError(reason)
