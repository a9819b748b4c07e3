"""Processes chunks of a batch in parallel on a CPU, each on its own threads.

Small products hardly gain from a second thread; two chunks in parallel use two cores fully. Results
are returned in the order of the chunks, so that their sums are always the same.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeVar

import torch

from expert_worker.train.fast.batch import PackedBatch

# The memory budget in the contract crate assumes this maximum.
_MOST_LANES = 2
# How far the chunks of one turn may exceed the chunk size together.
_SLACK = 1.25

Result = TypeVar("Result")


class ChunkPool:
    """`room` is the approximate number of tokens of a chunk."""

    def __init__(self, room: int, threads: int) -> None:
        self.count = min(threads, _MOST_LANES)
        self.room, self._threads = room, max(1, threads // self.count)
        self._pool: ThreadPoolExecutor | None = None

    def pieces(self, batch: PackedBatch) -> list[PackedBatch]:
        """As many chunks as divide evenly among the threads."""
        turns = -(-len(batch.ids) // (self.room * self.count))
        return batch.pieces(turns * self.count)

    def walk(self, work: Callable[[PackedBatch], Result], pieces: Sequence[PackedBatch]) -> Iterator[Result]:
        for turn in self._turns(pieces):
            if len(turn) == 1:
                yield work(turn[0])
                continue
            running = [self._workers().submit(work, piece) for piece in turn]
            failed = [error for future in running if (error := future.exception()) is not None]
            if failed:
                raise failed[0]
            yield from (future.result() for future in running)

    def _turns(self, pieces: Sequence[PackedBatch]) -> list[list[PackedBatch]]:
        """Neighbours are grouped while they fit; a long document uses all threads."""
        number = held = count = 0
        numbers = []
        for piece in pieces:
            size = len(piece.ids)
            if count == self.count or (count and held + size > self.count * self.room * _SLACK):
                number, held, count = number + 1, 0, 0
            held, count = held + size, count + 1
            numbers.append(number)
        paired = zip(numbers, pieces, strict=True)
        return [[piece for _, piece in group] for _, group in groupby(paired, key=lambda pair: pair[0])]

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self.count, "piece", initializer=torch.set_num_threads, initargs=(self._threads,)
            )
        return self._pool
