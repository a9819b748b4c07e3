"""One optimizer step's worth of gradients: accumulated over micro-batches, redone smaller when memory runs
out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from expert_worker.events import Events
from expert_worker.train import memory
from expert_worker.train.data import Rows, flat, keyed, row_lengths
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import Flat, nothing, supervised
from expert_worker.train.stopwatch import Split, Stopwatch
from expert_worker.train.team import Team


@dataclass(frozen=True)
class Gathered:
    """What a window came to; `finished` is false where a wish to stop cut it short."""

    loss_sum: float
    tokens: int
    supervised: int
    data_wait: float
    split: Split = field(default_factory=Split)
    finished: bool = True


class Window:
    """`micro_batch` is what fits: it is halved in place and stays so."""

    def __init__(
        self,
        engine: Engine,
        rows: Rows,
        parameters: Sequence[torch.nn.Parameter],
        seed: int,
        micro_batch: int,
        events: Events,
        team: Team,
    ) -> None:
        self._engine, self._rows, self._parameters = engine, rows, parameters
        self._seed, self._events, self._team = seed, events, team
        self.micro_batch = micro_batch
        self._lengths = row_lengths(rows)
        self._device = parameters[0].device if parameters else torch.device("cpu")

    def gather(self, step: int, rows: Sequence[int], scale: float = 1.0) -> Gathered:
        """Leaves in the parameters the gradient of the mean loss over the window's supervised tokens, times
        `scale`. With a team each process walks its share of the rows."""
        began = time.monotonic()
        batches = self._batches(step, rows)
        data_wait = time.monotonic() - began
        count, tokens, stopping = self._team.sum(
            sum(supervised(batch.labels, batch.positions) for batch in batches),
            sum(batch.ids.numel() for batch in batches),
            float(self._events.stop_requested and self._team.size > 1),
        )
        walked = None if stopping else self._walk(step, rows, batches, scale / max(1, count))
        if walked is None:
            self.clear()
            return Gathered(0.0, 0, 0, data_wait, finished=False)
        loss, split = walked
        self._team.sum_gradients(self._parameters)
        (whole,) = self._team.sum(loss)
        return Gathered(whole, int(tokens), int(count), data_wait, split)

    def reading(self, rows: Rows) -> "Window":
        """The same window over rows from elsewhere."""
        return Window(
            self._engine, rows, self._parameters, self._seed, self.micro_batch, self._events, self._team
        )

    def clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _walk(
        self, step: int, rows: Sequence[int], batches: list[Flat], scale: float
    ) -> tuple[float, Split] | None:
        """The summed loss of this process's rows and its time; None where a wish to stop cut it short."""
        while True:
            try:
                return self._accumulate(step, rows, batches, scale)
            except (RuntimeError, MemoryError) as error:
                if not memory.ran_out(error):
                    raise
            self.clear()
            held = min(self.micro_batch, len(self._team.share(rows)))
            if self._team.spread:
                raise memory.too_large_together(held)
            self.micro_batch = memory.halved(held, step, "the step", self._events)
            batches = self._batches(step, rows)

    def _accumulate(
        self, step: int, rows: Sequence[int], batches: list[Flat], scale: float
    ) -> tuple[float, Split] | None:
        self.clear()
        loss: Any = 0.0
        watch = Stopwatch(self._device)
        for number, batch in enumerate(batches, 1):
            loss = loss + self._engine.backward(watch.moved(batch), scale)
            self._events.accumulating(step, number, len(batches))
            if self._events.stop_requested and number < len(batches) and self._team.size == 1:
                return None
        for _ in range(self._team.idle_rounds(len(rows), self.micro_batch, len(batches))):
            self._engine.backward(nothing(), 0.0)
        watch.launched()
        summed = float(loss)  # Waits for the device.
        return summed, watch.split()

    def _batches(self, step: int, rows: Sequence[int]) -> list[Flat]:
        mine = self._team.share(rows)
        return [
            self._read(mine[start : start + self.micro_batch], step)
            for start in range(0, len(mine), self.micro_batch)
        ]

    def _read(self, rows: Sequence[int], step: int) -> Flat:
        return keyed(flat(self._rows, rows), self._seed, step, rows, self._lengths)
