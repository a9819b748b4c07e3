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
from expert_worker.train.fast.batch import Flat, supervised
from expert_worker.train.stopwatch import Split, Stopwatch


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
    ) -> None:
        self._engine, self._rows, self._parameters = engine, rows, parameters
        self._seed, self._events = seed, events
        self.micro_batch = micro_batch
        self._lengths = row_lengths(rows)
        self._device = parameters[0].device if parameters else torch.device("cpu")

    def gather(self, step: int, rows: Sequence[int], scale: float = 1.0) -> Gathered:
        """Leaves in the parameters the gradient of the mean loss over the window's supervised tokens, times
        `scale`."""
        while True:
            try:
                return self._accumulate(step, rows, scale)
            except (RuntimeError, MemoryError) as error:
                if not memory.ran_out(error):
                    raise
            self.clear()
            self.micro_batch = memory.halved(min(self.micro_batch, len(rows)), step, "the step", self._events)

    def reading(self, rows: Rows) -> "Window":
        """The same window over rows from elsewhere."""
        return Window(self._engine, rows, self._parameters, self._seed, self.micro_batch, self._events)

    def clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _accumulate(self, step: int, rows: Sequence[int], scale: float) -> Gathered:
        self.clear()
        began = time.monotonic()
        batches = [
            self._read(rows[i : i + self.micro_batch], step) for i in range(0, len(rows), self.micro_batch)
        ]
        data_wait = time.monotonic() - began
        count = sum(supervised(batch.labels, batch.positions) for batch in batches)
        tokens = sum(batch.ids.numel() for batch in batches)
        loss: Any = 0.0
        watch = Stopwatch(self._device)
        for number, batch in enumerate(batches, 1):
            loss = loss + self._engine.backward(watch.moved(batch), scale / max(1, count))
            self._events.accumulating(step, number, len(batches))
            if self._events.stop_requested and number < len(batches):
                self.clear()
                return Gathered(0.0, 0, 0, data_wait, finished=False)
        watch.launched()
        summed = float(loss)  # Waits for the device.
        return Gathered(summed, tokens, count, data_wait, watch.split())

    def _read(self, rows: Sequence[int], step: int) -> Flat:
        return keyed(flat(self._rows, rows), self._seed, step, rows, self._lengths)
