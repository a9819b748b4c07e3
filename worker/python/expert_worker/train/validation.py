"""Loss on the validation rows, by supervised token."""

import math
from collections.abc import Sequence

from expert_worker.events import Events
from expert_worker.train import memory
from expert_worker.train.data import Rows, flat, longest, row_lengths
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import supervised


class Validation:
    """`micro_batch` is how many rows fit at once without gradients: halved in place, as training's is."""

    def __init__(self, engine: Engine, rows: Rows, micro_batch: int, events: Events) -> None:
        self.rows = rows
        self._engine, self._events = engine, events
        self.micro_batch = min(micro_batch, len(rows))

    def run(self, step: int) -> dict[str, float]:
        total, count, start = 0.0, 0, 0
        while start < len(self.rows):
            batch = range(start, min(start + self.micro_batch, len(self.rows)))
            found = self._measured(step, batch)
            if found is not None:
                total, count, start = total + found[0], count + found[1], batch.stop
                self._events.advance("evaluate", start, len(self.rows))
        loss = total / max(1, count)
        return {"eval_loss": loss, "eval_perplexity": math.exp(min(loss, 700.0))}

    def try_largest(self) -> None:
        """The longest rows together, fewer and fewer until they fit."""
        lengths = row_lengths(self.rows)
        while self._measured(0, longest(lengths, self.micro_batch)) is None:
            pass

    def _measured(self, step: int, indices: Sequence[int]) -> tuple[float, int] | None:
        """Summed loss and supervised tokens; None where the rows did not fit: fewer are to be tried."""
        batch = flat(self.rows, indices)
        try:
            return float(self._engine.loss(batch)), supervised(batch.labels, batch.positions)
        except (RuntimeError, MemoryError) as error:
            if not memory.ran_out(error):
                raise
        self.micro_batch = memory.halved(len(indices), step, "The evaluation", self._events)
        return None
