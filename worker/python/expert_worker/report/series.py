"""The numbers of a run's steps, kept for drawing.

Long runs keep the lowest and highest point of each stretch: memory is bounded and no spike is lost.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import accumulate

from expert_worker.events.models import Progress

Points = Sequence[tuple[float, float]]

NAMES = (
    "lr",
    "tokens_per_second",
    "tokens",
    "supervised_tokens",
    "memory_allocated",
    "memory_reserved",
    "grad_norm",
    "gpu_util",
    "waiting",
)
_CHUNK = 32_768
_KEPT_OF_CHUNK = 2_048
# Beyond it differences of two values overflow.
_LARGEST = 1e100

_Row = tuple[float | None, ...]


class Steps:
    """Columns over the optimizer steps. `loss` is exact at any length, for its mean is drawn."""

    def __init__(self) -> None:
        self._steps, self._losses = array("d"), array("d")
        self._rows: list[_Row] = []
        self._thinned: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def last(self) -> tuple[int, float] | None:
        """Number and loss of the last step."""
        return (int(self._steps[-1]), self._losses[-1]) if self._steps else None

    def add(self, step: Progress) -> None:
        self._steps.append(step.step)
        self._losses.append(step.loss)
        self._rows.append(
            (
                step.step,
                step.lr,
                step.tokens_per_second,
                step.tokens,
                step.supervised_tokens,
                step.memory_allocated,
                step.memory_reserved,
                step.grad_norm,
                step.gpu_util,
                100 * step.data_wait / step.seconds if step.seconds > 0 else None,
            )
        )
        if len(self._rows) >= _CHUNK:
            self._thin()

    def drop_after(self, step: int) -> None:
        """A resumed attempt repeats the steps behind its checkpoint."""
        while self._steps and self._steps[-1] > step:
            self._steps.pop()
            self._losses.pop()
        while self._rows and (self._rows[-1][0] or 0) > step:
            self._rows.pop()
        for points in self._thinned.values():
            while points and points[-1][0] > step:
                points.pop()

    def series(self, name: str, unit: float = 1.0) -> list[tuple[float, float]]:
        """The points of one curve, in order; steps without this number are left out."""
        if name == "loss":
            found = _thinned(self._steps, self._losses, _CHUNK)
        else:
            column = 1 + NAMES.index(name)
            rows = ((row[0] or 0.0, row[column]) for row in self._rows)
            found = [*self._thinned[name], *((step, value) for step, value in rows if value is not None)]
        return [(step, value / unit) for step, value in found if abs(value) <= _LARGEST]

    def mean_loss(self, span: int) -> list[tuple[float, float]]:
        """The mean of each step's loss and those before it, `span` together; at most some thousand points."""
        if len(self) <= _CHUNK:
            return trailing_mean(self.series("loss"), span)
        sums = array("d", accumulate(self._losses, initial=0.0))
        places = range(span, len(sums), math.ceil(len(sums) / _KEPT_OF_CHUNK))
        means = ((self._steps[last - 1], (sums[last] - sums[last - span]) / span) for last in places)
        return [(step, mean) for step, mean in means if abs(mean) <= _LARGEST]

    def _thin(self) -> None:
        steps, *columns = zip(*self._rows, strict=True)
        for name, column in zip(NAMES, columns, strict=True):
            found = [(s or 0.0, v) for s, v in zip(steps, column, strict=True) if v is not None]
            self._thinned[name] += thinned(found, _KEPT_OF_CHUNK)
        self._rows.clear()


def thinned(points: Points, most: int) -> list[tuple[float, float]]:
    """Of a long curve the lowest and highest point of each stretch."""
    if len(points) <= most:
        return list(points)
    return _thinned([x for x, _ in points], [y for _, y in points], most)


def _thinned(xs: Sequence[float], ys: Sequence[float], most: int) -> list[tuple[float, float]]:
    if len(xs) <= most:
        return list(zip(xs, ys, strict=True))
    size = math.ceil(len(xs) / (most // 2))
    kept = [0]
    for start in range(0, len(xs), size):
        stretch = ys[start : start + size]
        low, high = sorted((stretch.index(min(stretch)), stretch.index(max(stretch))))
        kept += [start + low, start + high] if high > low else [start + low]
    return [(xs[place], ys[place]) for place in [*kept, len(xs) - 1]]


def trailing_mean(points: Points, span: int) -> list[tuple[float, float]]:
    sums = [0.0, *accumulate(value for _, value in points)]
    return [(points[last - 1][0], (sums[last] - sums[last - span]) / span) for last in range(span, len(sums))]
