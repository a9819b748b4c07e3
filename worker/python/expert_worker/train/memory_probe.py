"""Before the first step: the batches that need most memory are tried, so that a run does not fail hours
later."""

from __future__ import annotations

import heapq
import math

import torch

from expert_worker.events import Events
from expert_worker.train import memory
from expert_worker.train.dataset import Rows, longest
from expert_worker.train.distributed import DistContext
from expert_worker.train.loader import StepSampler
from expert_worker.train.trainer import EVALUATION_BUDGET, GradientAccumulator
from expert_worker.train.validation import Validation

_MUCH_LONGER = 1.25


def try_largest(
    accumulator: GradientAccumulator,
    rows: Rows,
    order: StepSampler,
    validation: Validation | None,
    device: torch.device,
    events: Events,
    dist: DistContext,
    state_bytes: int = 0,
) -> None:
    """`rows` can be read in any order; `state_bytes` is what the optimizer allocates in the first step.

    Where memory is the device's own both batches are always tried. On a CPU, where too much memory ends the
    process, only if they go well beyond the first step's."""
    refuses = device.type != "cpu"
    lengths = rows.row_lengths()
    first = sum(lengths[row] for row in order.step(0)[: accumulator.micro_batch])
    share = math.ceil(order.rows_per_step / dist.size)
    # Divided among the processes, they give each a whole batch.
    trained = longest(lengths, dist.size * min(accumulator.micro_batch, share))
    most = sum(lengths[row] for row in trained[: len(trained) // dist.size])
    if refuses or most > _MUCH_LONGER * first:
        events.stage("try largest batch", 600.0, f"{len(trained)} rows")
        alone = accumulator.over(rows)
        with memory.reserved(state_bytes if refuses else 0, device):
            alone.accumulate(0, trained)
        alone.clear()
        accumulator.micro_batch = alone.micro_batch
        events.applied("micro_batch.tried", accumulator.micro_batch)
    if validation is None:
        return
    held_out = sum(heapq.nlargest(validation.micro_batch, validation.lengths()))
    if refuses or held_out > _MUCH_LONGER * max(first, most):
        events.stage("try evaluation batch", EVALUATION_BUDGET, f"{validation.micro_batch} rows")
        validation.try_largest()
        events.applied("evaluation_batch.tried", validation.micro_batch)
