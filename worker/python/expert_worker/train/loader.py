"""In which order rows are read, and how: the rows of each step, batches of them, and workers that read ahead.

The order is a pure function of (seed, step).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as TorchDataset

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import Batch, DeviceKind, Duration, DurationSteps, Loader, Machine
from expert_worker.stop import obey_parent_only, signals_blocked
from expert_worker.train.dataset import InMemory, Rows
from expert_worker.train.distributed import DistContext
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.fast.dropout import token_keys
from expert_worker.train.random import ORDER, generator
from expert_worker.train.schedule import rounded_up

_SORTED_AMONG = 50

Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class StepSampler:
    """Every epoch is a new permutation; a step takes the next `rows_per_step` of it."""

    rows: int
    rows_per_step: int
    seed: int
    drop_last: bool = False
    lengths: tuple[int, ...] | None = None
    """Set if rows of similar length share a step."""

    @property
    def steps_per_epoch(self) -> int:
        whole = self.rows // self.rows_per_step
        return max(1, whole if self.drop_last else math.ceil(self.rows / self.rows_per_step))

    def epoch(self, step: int) -> float:
        """Finished epochs after `step` steps."""
        return step / self.steps_per_epoch

    def step(self, step: int) -> list[int]:
        """The rows of step `step`, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        first = place * self.rows_per_step
        return self._permutation(epoch)[first : first + self.rows_per_step]

    def _permutation(self, epoch: int) -> list[int]:
        return _permutation(self, epoch)


@lru_cache(maxsize=2)
def _permutation(order: StepSampler, epoch: int) -> list[int]:
    draw = generator(order.seed, ORDER, epoch)
    shuffled: list[int] = torch.randperm(order.rows, generator=draw).tolist()
    # Rows that make no whole step are left out before sorting: afterwards they would always be the shortest.
    shuffled = shuffled[: order.steps_per_epoch * order.rows_per_step]
    if order.lengths is None:
        return shuffled
    lengths, among = order.lengths, _SORTED_AMONG * order.rows_per_step
    pools = [
        sorted(shuffled[i : i + among], key=lambda row: -lengths[row]) for i in range(0, len(shuffled), among)
    ]
    return _with_steps_shuffled([row for pool in pools for row in pool], order.rows_per_step, draw)


def _with_steps_shuffled(rows: list[int], size: int, draw: torch.Generator) -> list[int]:
    """Whole steps are shuffled; the last, smaller one stays last, so that no step is split."""
    whole = len(rows) // size
    places = torch.randperm(whole, generator=draw).tolist()
    return [row for place in places for row in rows[place * size : (place + 1) * size]] + rows[whole * size :]


def order_of(batch: Batch, seed: int, rows: Rows) -> StepSampler:
    if len(rows) == 0:
        raise BadInput("There are no rows to train on: the data set is empty", code="no-rows")
    lengths = tuple(rows.row_lengths()) if batch.group_by_length and not batch.packing else None
    return StepSampler(len(rows), batch.rows_per_step, seed, batch.drop_last, lengths)


def total_steps(duration: Duration, order: StepSampler) -> int:
    if isinstance(duration, DurationSteps):
        return int(duration.value)
    return max(1, rounded_up(duration.value * order.steps_per_epoch))


def keyed(
    batch: PackedBatch, seed: int, step: int, indices: Sequence[int], lengths: Sequence[int]
) -> PackedBatch:
    """With each token's dropout key; `lengths` are those of all rows."""
    keys = token_keys(seed, step, list(indices), [lengths[index] for index in indices])
    return replace(batch, keys=keys, step=step)


class RowSet(TorchDataset[Row]):
    """One item per row. A spawned worker opens the file itself."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        ids, labels, bounds, positions = self._rows.batch([index])
        return tuple(torch.as_tensor(part) for part in (ids, labels, bounds, positions))  # type: ignore[return-value]

    def __reduce__(self) -> Any:
        if isinstance(self._rows, InMemory):
            return RowSet, (self._rows,)
        return _reopen, (type(self._rows), self._rows.path)  # type: ignore[attr-defined]


def _reopen(kind: Any, path: Any) -> RowSet:
    return RowSet(kind(path))


class InOrder(Sampler[int]):
    """The rows of this process for every step from `start`."""

    def __init__(self, order: StepSampler, start: int, total: int, dist: DistContext) -> None:
        self._order, self._start, self._total, self._dist = order, start, total, dist

    def __iter__(self) -> Iterator[int]:
        for step in range(self._start, self._total):
            yield from self._dist.share(self._order.step(step))


class LoadedRows:
    """`Rows` from torch's DataLoader, whose workers read ahead: for rows that are not mapped from the cache.

    The loop asks for rows by number, as with the cache; here they arrive in the order of the steps. The rows
    of a step are kept until the next, as a step may be repeated with smaller micro-batches."""

    def __init__(
        self,
        rows: Rows,
        order: StepSampler,
        start: int,
        total: int,
        wanted: Loader,
        device: DeviceKind,
        dist: DistContext,
    ) -> None:
        self._rows, self._held_most = rows, 2 * order.rows_per_step
        in_order = InOrder(order, start, total, dist)
        self._order_of_rows = iter(in_order)
        self.loader = _loader(RowSet(rows), in_order, wanted, device)
        self._arriving: Iterator[Row] | None = None
        self._held: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row_lengths(self) -> Sequence[int]:
        return self._rows.row_lengths()

    def batch(self, indices: Sequence[int]) -> Row:
        rows = [self._row(index) for index in indices]
        sizes = torch.cat([row[2][1:] - row[2][:-1] for row in rows])
        bounds = torch.cat([torch.zeros(1, dtype=sizes.dtype), sizes.cumsum(0)])
        ids, labels, positions = (torch.cat([row[part] for row in rows]) for part in (0, 1, 3))
        return ids, labels, bounds, positions

    def _row(self, index: int) -> Row:
        if index not in self._held:
            if self._arriving is None:
                self._arriving = self._arrivals()
            for arrived in self._order_of_rows:
                # A row that is still held from the epoch before is the newest now, not the oldest.
                self._held.pop(arrived, None)
                self._held[arrived] = next(self._arriving)
                if arrived == index:
                    break
            while len(self._held) > self._held_most:
                self._held.pop(next(iter(self._held)))
        return self._held[index]

    def _arrivals(self) -> Iterator[Row]:
        context = self.loader.multiprocessing_context
        if context is None:
            return iter(self.loader)
        with signals_blocked(spawning=context.get_start_method() == "spawn"):
            return iter(self.loader)


def _loader(rows: RowSet, order: InOrder, wanted: Loader, device: DeviceKind) -> DataLoader[Row]:
    ahead: dict[str, Any] = {}
    if wanted.workers:
        # A forked child of a process that holds a GPU or other threads' locks may hang.
        safe = sys.platform.startswith("linux") and device == "cpu"
        ahead = {
            "prefetch_factor": wanted.prefetch_factor or 2,
            "multiprocessing_context": "fork" if safe else "spawn",
            "worker_init_fn": _begin_worker,
        }
    # A batch is pinned as a whole, when it is copied: made of pinned rows it would not be.
    return DataLoader(rows, batch_size=None, sampler=order, num_workers=wanted.workers, **ahead)


def copies_pinned(machine: Machine) -> bool:
    """Whether batches are copied to the device from pinned memory."""
    return machine.loader.pin_memory and machine.device.kind == "cuda"


def _begin_worker(number: int) -> None:
    del number
    obey_parent_only()


def report_loader(loader: DataLoader[Row], machine: Machine, events: Events) -> None:
    """As reported by the loader, except where batches are copied from."""
    events.applied("dataloader_num_workers", loader.num_workers, f"{loader.num_workers} loader workers")
    events.applied("dataloader_pin_memory", copies_pinned(machine))
    events.applied("dataloader_prefetch_factor", loader.prefetch_factor)
