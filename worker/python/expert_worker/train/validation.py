"""Measures the loss per supervised token on the validation rows during training."""

import math
from collections.abc import Sequence

from expert_worker.evaluate.rows import spread
from expert_worker.events import Events
from expert_worker.train import memory
from expert_worker.train.data import Rows, flat, longest, row_lengths
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import nothing, supervised
from expert_worker.train.team import Team


class Validation:
    """`micro_batch` is how many rows fit at once without gradients: halved in place, as training's is.
    `wanted` is how many of the data set's rows are looked at; None for all."""

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        micro_batch: int,
        events: Events,
        team: Team,
        wanted: int | None = None,
    ) -> None:
        self.rows = rows
        self.chosen: Sequence[int] = range(len(rows)) if wanted is None else _looked_at(rows, wanted)
        self._engine, self._events, self._team = engine, events, team
        self.micro_batch = min(micro_batch, len(self.chosen))

    def run(self, step: int) -> dict[str, float]:
        """With a team each process measures its share of the rows."""
        mine = self._team.share(self.chosen)
        measured: list[tuple[float, int]] = []
        start = 0
        while start < len(mine):
            batch = mine[start : start + self.micro_batch]
            found = self._measured(step, batch)
            if found is not None:
                measured.append(found)
                start += len(batch)
                self._events.advance("evaluate", start, len(mine))
        for _ in range(self._team.idle_rounds(len(self.chosen), self.micro_batch, len(measured))):
            self._engine.loss(nothing())
        total, count = self._team.sum(
            sum(loss for loss, _ in measured), sum(tokens for _, tokens in measured)
        )
        loss = total / max(1, count)
        return {"eval_loss": loss, "eval_perplexity": math.exp(min(loss, 700.0))}

    def try_largest(self) -> None:
        """The longest rows together, fewer and fewer until they fit."""
        lengths = self.lengths()
        while self._measured(0, [self.chosen[i] for i in longest(lengths, self.micro_batch)]) is None:
            pass

    def lengths(self) -> list[int]:
        """Tokens of each row that is looked at."""
        every = row_lengths(self.rows)
        return [every[row] for row in self.chosen]

    def _measured(self, step: int, indices: Sequence[int]) -> tuple[float, int] | None:
        """Summed loss and supervised tokens; None where the rows did not fit: fewer are to be tried."""
        batch = flat(self.rows, indices)
        try:
            return float(self._engine.loss(batch)), supervised(batch.labels, batch.positions)
        except (RuntimeError, MemoryError) as error:
            if not memory.ran_out(error):
                raise
        if self._team.spread:
            raise memory.too_large_together(len(indices))
        self.micro_batch = memory.halved(len(indices), step, "The evaluation", self._events)
        return None


def _looked_at(rows: Rows, wanted: int) -> Sequence[int]:
    """The packed rows that hold about `wanted` of the data set's rows, spread over all of them."""
    every = range(len(rows))
    held = sum(documents(rows, row) for row in every)
    return spread(every, max(1, round(len(rows) * wanted / max(1, held))))


def documents(rows: Rows, row: int) -> int:
    """How many rows of the data set are packed into this one."""
    return len(flat(rows, [row]).lengths)
