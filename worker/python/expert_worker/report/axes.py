"""Axes: positions of numbers on a chart, and labels. Charts are
1000
by 1000 and stretched, so that lines fit any screen; labels are HTML over them, so that they keep their
size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

SIDE = 1000.0
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    factor: str = ""
    """What the labels are to be multiplied with, in words: `×10⁻³`."""

    def place(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) * SIDE

    def share(self, value: float) -> float:
        """The same in percent of the picture."""
        return self.place(value) / SIDE * 100


def axis_over(values: Sequence[float], count: int, *, from_zero: bool = False, room: float = 0.05) -> Axis:
    low, high = (min(0.0, *values) if from_zero else min(values)), max(values)
    # Closer together than floats can divide counts as equal.
    if high - low <= 1e-9 * max(abs(low), abs(high)) or high - low < 1e-100:
        half = (abs(high) if abs(high) >= 1e-100 else 1.0) * 0.1
        low, high = (low if from_zero and low == 0 else low - half), high + half
    margin = (high - low) * room
    low, high = (low if from_zero and low == 0 else low - margin), high + margin
    step = _step(low, high, count)
    ticks = tuple(ticks_between(low, high, step))
    factor, labels = _labels(ticks, step)
    return Axis(low, high, ticks, labels, factor)


def steps_axis(steps: Sequence[float], count: int = 6) -> Axis:
    """Whole numbers, and no room at the sides."""
    low, high = min(steps), max(steps)
    if high - low <= abs(high) * 1e-12:
        half = max(1.0, abs(high) * 1e-6)
        low, high = low - half, high + half
    step = max(1.0, _step(low, high, count))
    ticks = tuple(tick for tick in ticks_between(low, high, step) if float(tick).is_integer())
    return Axis(low, high, ticks, tuple(f"{tick:,.0f}" for tick in ticks))


def _step(low: float, high: float, count: int) -> float:
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * (1 - 1e-9))


def ticks_between(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _labels(ticks: Sequence[float], step: float) -> tuple[str, tuple[str, ...]]:
    """All with as many digits after the point; a common power of ten where the numbers are small or large."""
    most = max((abs(tick) for tick in ticks), default=0.0)
    power = 0
    if most and not 1e-2 <= most < 1e5:
        power = math.floor(math.log10(most) + 1e-9)
    scale = 10.0**power
    digits = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    if not math.isclose(round(step / scale, digits), step / scale, rel_tol=1e-6):
        digits += 1
    factor = f"×10{str(power).translate(_SUPERSCRIPTS)}" if power else ""
    return factor, tuple(f"{tick / scale:,.{digits}f}" for tick in ticks)
