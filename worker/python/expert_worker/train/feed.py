"""Rows through torch's DataLoader: for data that is not mapped, with workers that read ahead.

The loop asks for rows by number, as it does of the mapped cache; here they arrive in the order of the steps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train.data import InMemory, Rows, StepSampler, row_lengths
from expert_worker.train.distributed import DistContext

Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class RowSet(Dataset[Row]):
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
    """`Rows` that come out of a DataLoader. What a step has seen is kept until the next, which may redo
    it."""

    def __init__(
        self, rows: Rows, order: StepSampler, start: int, total: int, plan: Plan, dist: DistContext
    ) -> None:
        self._rows, self._held_most = rows, 2 * order.rows_per_step
        in_order = InOrder(order, start, total, dist)
        self._order_of_rows = iter(in_order)
        self.loader = _loader(RowSet(rows), in_order, plan)
        self._arriving: Iterator[Row] | None = None
        self._held: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def row_lengths(self) -> list[int]:
        return row_lengths(self._rows)

    def batch(self, indices: Sequence[int]) -> Row:
        rows = [self._row(index) for index in indices]
        sizes = torch.cat([row[2][1:] - row[2][:-1] for row in rows])
        bounds = torch.cat([torch.zeros(1, dtype=sizes.dtype), sizes.cumsum(0)])
        ids, labels, positions = (torch.cat([row[part] for row in rows]) for part in (0, 1, 3))
        return ids, labels, bounds, positions

    def _row(self, index: int) -> Row:
        if index not in self._held:
            if self._arriving is None:
                self._arriving = iter(self.loader)
            for arrived in self._order_of_rows:
                self._held[arrived] = next(self._arriving)
                if arrived == index:
                    break
            while len(self._held) > self._held_most:
                self._held.pop(next(iter(self._held)))
        return self._held[index]


def _loader(rows: RowSet, order: InOrder, plan: Plan) -> DataLoader[Row]:
    wanted = plan.machine.loader
    ahead: dict[str, Any] = {}
    if wanted.workers:
        # A forked child of a process that holds a GPU or other threads' locks may hang.
        safe = sys.platform.startswith("linux") and plan.machine.device.kind == "cpu"
        ahead = {
            "prefetch_factor": wanted.prefetch_factor or 2,
            "persistent_workers": wanted.persistent_workers,
            "multiprocessing_context": "fork" if safe else "spawn",
        }
    pinned = wanted.pin_memory and torch.cuda.is_available()
    return DataLoader(
        rows, batch_size=None, sampler=order, num_workers=wanted.workers, pin_memory=pinned, **ahead
    )


def report(loader: DataLoader[Row], events: Events) -> None:
    """As reported by the loader."""
    events.applied("dataloader_num_workers", loader.num_workers, f"{loader.num_workers} loader workers")
    events.applied("dataloader_pin_memory", loader.pin_memory)
    events.applied("dataloader_prefetch_factor", loader.prefetch_factor)
    events.applied("dataloader_persistent_workers", loader.persistent_workers)
