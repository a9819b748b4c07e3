"""How many rows a model answers together: fewer after memory ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from expert_worker import memory_errors
from expert_worker.events import Events
from expert_worker.train import memory

CPU_ROWS = 32
GPU_ROWS = 64

Row = TypeVar("Row")
Made = TypeVar("Made")


class RowsAtOnce:
    """`batch` is how many rows are taken together, the same in every process. `most` is how many of them are
    computed together: halved where they do not fit, and kept for what follows. Without `events`, which report
    it, the error is raised: a rank of a sharded base cannot repeat a pass alone."""

    def __init__(self, batch: int, events: Events | None = None) -> None:
        self.batch = self.most = batch
        self.step = 0
        """Of the training that the answers belong to."""
        self._events = events

    @classmethod
    def of(cls, model: Any, events: Events | None = None) -> RowsAtOnce:
        return cls(GPU_ROWS if model.device.type == "cuda" else CPU_ROWS, events)

    def parts(
        self, rows: Sequence[Row], compute: Callable[[Sequence[Row]], Made], each: int = 1
    ) -> Iterator[tuple[Sequence[Row], Made]]:
        """What `compute` makes of `rows`, as many together as fit. `each` is how many rows of the model one
        of them takes, of which `compute` takes no more than `most` at once."""
        start = 0
        while start < len(rows):
            part = rows[start : start + max(1, self.most // each)]
            held = min(self.most, len(part) * each)
            try:
                made = compute(part)
            except (RuntimeError, MemoryError) as error:
                if self._events is None or not memory_errors.ran_out(error):
                    raise
            else:
                yield part, made
                start += len(part)
                if self._events is not None:
                    self._events.tick()
                continue
            # Here the error no longer holds the tensors of the batch.
            self.most = memory.halve_after_oom(
                held, self.step, "the batch", self._events, hint="Lower max_new_tokens, or quantize the base."
            )
