"""Chance that comes out the same on every platform and every Python.

Only `Random.random()` is promised never to change for a given seed, so every other draw is made from it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        return int(self._random.random() * bound)

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` different items in a random order."""
        return self.shuffled(items)[:count]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        pool = list(items)
        random = self._random.random  # a tenth of all the time that rows take is spent here
        for last in range(len(pool) - 1, 0, -1):
            other = int(random() * (last + 1))
            pool[last], pool[other] = pool[other], pool[last]
        return pool

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        mark = self._random.random() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            mark -= weight
            if mark < 0:
                return item
        return items[-1]
