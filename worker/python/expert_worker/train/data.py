"""Samples the rows of a step and reads them. The order is a pure function of (seed, step)."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import torch

from expert_worker.base import token_vectors
from expert_worker.errors import BadInput
from expert_worker.plan import DurationSteps, Plan
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.fast.dropout import token_keys
from expert_worker.train.random import ORDER, generator

_SORTED_AMONG = 50


class Rows(Protocol):
    """Tokenized rows. `batch` lays rows end to end: ids, labels, document boundaries, positions."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any, Any, Any]: ...


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


def order_of(plan: Plan, rows: Rows) -> StepSampler:
    if len(rows) == 0:
        raise BadInput("There are no rows to train on: the data set is empty", code="no-rows")
    batch = plan.recipe.batch
    lengths = tuple(row_lengths(rows)) if batch.group_by_length and not batch.packing else None
    return StepSampler(len(rows), batch.rows_per_step, plan.recipe.seed, batch.drop_last, lengths)


def total_steps(plan: Plan, order: StepSampler) -> int:
    duration = plan.recipe.schedule.duration
    if isinstance(duration, DurationSteps):
        return int(duration.value)
    return max(1, math.ceil(duration.value * order.steps_per_epoch - 1e-9))


def row_lengths(rows: Rows) -> list[int]:
    """From the rows' table of lengths, if they have one."""
    known = getattr(rows, "row_lengths", None)
    if known is not None:
        return [int(length) for length in (known() if callable(known) else known)]
    return [len(rows.batch([index])[0]) for index in range(len(rows))]


def longest(lengths: Sequence[int], count: int) -> list[int]:
    """The `count` longest rows, the longest first."""
    return heapq.nlargest(count, range(len(lengths)), key=lengths.__getitem__)


def flat(rows: Rows, indices: Sequence[int]) -> PackedBatch:
    """One batch on the CPU, without dropout keys."""
    ids, labels, bounds, positions = (_tensor(part) for part in rows.batch(indices))
    lengths = tuple((bounds[1:] - bounds[:-1]).tolist())
    return PackedBatch(ids.long(), labels.long(), positions.long(), lengths)


def keyed(
    batch: PackedBatch, seed: int, step: int, indices: Sequence[int], lengths: Sequence[int]
) -> PackedBatch:
    """With each token's dropout key; `lengths` are those of all rows."""
    keys = token_keys(seed, step, list(indices), [lengths[index] for index in indices])
    return replace(batch, keys=keys, step=step)


def _tensor(part: Any) -> torch.Tensor:
    return part if isinstance(part, torch.Tensor) else torch.as_tensor(part)


@dataclass(frozen=True)
class InMemory:
    """Rows of documents, each (ids, labels): for tests, and for data that is not in a file."""

    packed: list[list[tuple[list[int], list[int]]]]

    def __len__(self) -> int:
        return len(self.packed)

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        documents = [document for index in indices for document in self.packed[index]]
        sizes = [len(ids) for ids, _ in documents]
        bounds = torch.tensor([0, *sizes]).cumsum(0)
        positions = torch.cat([torch.arange(size) for size in sizes])
        return (
            torch.tensor([i for ids, _ in documents for i in ids]),
            torch.tensor([i for _, labels in documents for i in labels]),
            bounds,
            positions,
        )


def check_ids(rows: Rows, tokenizer: Any, model: Any) -> None:
    """Rows are only searched where the tokenizer is larger than the base."""
    if token_vectors.has_spare_ids(model, tokenizer):
        largest = max((int(torch.as_tensor(rows.batch([at])[0]).max()) for at in range(len(rows))), default=0)
        token_vectors.check_largest(model, tokenizer, largest)
