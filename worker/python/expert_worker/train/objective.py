"""What a run learns: how rows become a batch, the loss of a batch, and the figures of an evaluation.

The trainer, the engines, validation and checkpoints know an objective by this interface only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from expert_worker.events.models import EVAL_LOSS
from expert_worker.plan import Objective as ObjectiveName
from expert_worker.plan import Recipe
from expert_worker.train.dataset import Rows
from expert_worker.train.fast.batch import PackedBatch, supervised

# The model's cross entropy over the supervised tokens of a batch, summed.
TokenLoss = Callable[[PackedBatch], Tensor]


class Objective(Protocol):
    def batch(self, rows: Rows, indices: Sequence[int]) -> PackedBatch:
        """One batch on the CPU, without dropout keys."""

    def weight(self, batch: PackedBatch) -> int:
        """The loss of a step is the sum over its batches, divided by the sum of their weights."""

    def loss(self, token_loss: TokenLoss, batch: PackedBatch) -> Tensor:
        """Summed, so that parts of a batch, in whole documents, add up to the loss of the batch."""

    def metrics(self, loss: float) -> dict[str, float]:
        """What an evaluation reports for its mean loss."""


def objective_of(recipe: Recipe) -> Objective:
    return _OBJECTIVES[recipe.objective]


class SupervisedFineTuning:
    """The mean cross entropy of the supervised tokens of a step."""

    def batch(self, rows: Rows, indices: Sequence[int]) -> PackedBatch:
        ids, labels, bounds, positions = (_tensor(part) for part in rows.batch(indices))
        lengths = tuple((bounds[1:] - bounds[:-1]).tolist())
        # A document whose first position is not 0 continues another one's beginning.
        shared = tuple(positions[bounds[:-1]].tolist())
        return PackedBatch(
            ids.long(), labels.long(), positions.long(), lengths, shared=shared if any(shared) else ()
        )

    def weight(self, batch: PackedBatch) -> int:
        return supervised(batch.labels, batch.positions)

    def loss(self, token_loss: TokenLoss, batch: PackedBatch) -> Tensor:
        return token_loss(batch)

    def metrics(self, loss: float) -> dict[str, float]:
        return {EVAL_LOSS: loss, "eval_perplexity": math.exp(min(loss, 700.0))}


def _tensor(part: Any) -> Tensor:
    return part if isinstance(part, Tensor) else torch.as_tensor(part)


_OBJECTIVES: dict[ObjectiveName, Objective] = {"sft": SupervisedFineTuning()}
