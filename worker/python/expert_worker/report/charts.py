"""Charts: axes, line charts and histograms.

A stretched SVG for the lines, HTML for the labels, and one strip per point that shows its numbers under the
pointer. There is no script: the style sheet makes the tooltips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from expert_worker.report.numbers import short
from expert_worker.report.series import Points, thinned

SIDE = 1000.0
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_POINTS = 600
_MOST_STRIPS = 150
_MOST_WORDS = 8
_MEDIAN = 2
_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_FEWEST = 4
_ROOM = 0.05
"""Of what the values reach over, left free before the first and after the last."""
_CHARACTER = 2.7
"""Percent of the picture's width that a character of a label takes on the narrowest screen."""
_APART = 3.0
"""Percent of the picture's width between two labels."""


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    factor: str = ""
    """What the labels are to be multiplied with, in words: `×10⁻³`."""
    logarithmic: bool = False

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log2(low), math.log2(high), math.log2(value)
        return (value - low) / (high - low) * SIDE

    def share(self, value: float) -> float:
        """The same in percent of the picture."""
        return self.place(value) / SIDE * 100


def axis_over(values: Sequence[float], count: int, *, from_zero: bool = False, room: float = _ROOM) -> Axis:
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


def values_axis(values: Iterable[float], label: Callable[[float], str], *, logarithmic: bool = False) -> Axis:
    """Ticks at these values themselves, with room for half a label at either side."""
    known = sorted(set(values))
    low, high = known[0], known[-1]
    if high - low <= abs(high) * 1e-9:
        half = abs(high) / 2 or 1.0
        low, high = low - half, high + half
    if logarithmic:
        margin = (high / low) ** _ROOM
        low, high = low / margin, high * margin
    else:
        margin = (high - low) * _ROOM
        low, high = low - margin, high + margin
    return _with_ticks(Axis(low, high, (), (), logarithmic=logarithmic), known, label)


def _with_ticks(axis: Axis, values: Iterable[float], label: Callable[[float], str]) -> Axis:
    """Those of the values that are on the axis and have room for their labels."""
    ticks: list[float] = []
    free = -math.inf
    for value in values:
        half = len(label(value)) * _CHARACTER / 2
        if axis.low <= value <= axis.high and axis.share(value) - half >= free:
            ticks.append(value)
            free = axis.share(value) + half + _APART
    return replace(axis, ticks=tuple(ticks), labels=tuple(label(tick) for tick in ticks))


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


@dataclass(frozen=True)
class Line:
    name: str
    points: Points
    hue: int = 0
    dots: bool = False
    faint: bool = False
    """Drawn thin, behind another line that says the same more calmly."""


def curve(
    title: str,
    unit: str,
    lines: Sequence[Line],
    *,
    from_zero: bool = False,
    along: str = "optimizer step",
    across: Axis | None = None,
    point: Callable[[float], str] = lambda step: f"step {step:,.0f}",
    value: Callable[[float], str] = short,
) -> str:
    """A card with a line chart; nothing where there is nothing to draw. `point` names a place on the lower
    axis, `value` what a line has there."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    across = across or steps_axis([x for line in drawn for x, _ in line.points])
    up = axis_over([y for line in drawn for _, y in line.points], 4, from_zero=from_zero)
    picture = _grid(up) + "".join(_path(across, up, line) for line in drawn)
    legend = _legend(drawn) if len(drawn) > 1 else ""
    return card(
        title,
        legend,
        f"{up.factor} {unit}".strip(),
        along,
        svg(picture, words(title, unit, drawn)) + _ticks(across, up) + _strips(across, drawn, point, value),
    )


def words(title: str, unit: str, lines: Sequence[Line]) -> str:
    """What the picture says, for those who cannot see it."""
    parts = [f"{line.name} from {line.points[0][1]:.4g} to {line.points[-1][1]:.4g}" for line in lines]
    return f"{title} in {unit}: {'; '.join(parts)}"


def svg(body: str, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {SIDE:.0f} {SIDE:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{body}</svg>'
    )


def card(title: str, legend: str, up: str, across: str, plot: str) -> str:
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{legend}</figcaption>"
        f'<div class="unit">{escape(up)}</div><div class="plot">{plot}</div>'
        f'<div class="unit across">{escape(across)}</div></figure>'
    )


def tick_words(up: Axis) -> str:
    return "".join(
        f'<span class="up" style="top:{100 - up.share(tick):.3f}%">{label}</span>'
        for tick, label in zip(up.ticks, up.labels, strict=True)
    )


def _ticks(across: Axis, up: Axis) -> str:
    along = "".join(
        f'<span class="along" style="left:{across.share(tick):.3f}%">{escape(label)}</span>'
        for tick, label in zip(across.ticks, across.labels, strict=True)
    )
    return tick_words(up) + along


def _grid(up: Axis) -> str:
    lines = "".join(f"M0 {SIDE - up.place(tick):.2f}H{SIDE:.0f}" for tick in up.ticks)
    return f'<path class="grid" d="{lines}"/>'


def _path(across: Axis, up: Axis, line: Line) -> str:
    points = thinned(line.points, _MOST_POINTS)
    places = [f"{across.place(x):.2f},{SIDE - up.place(y):.2f}" for x, y in points]
    name = f'data-name="{escape(line.name)}"'
    if line.dots or len(points) == 1:
        # A line of no length with round ends: a dot that stays round however the picture is stretched.
        dots = "".join(f"M{place.replace(',', ' ')}h0" for place in places)
        thread = f'<polyline class="thread c{line.hue}" points="{" ".join(places)}"/>'
        return f'{thread}<path class="dot c{line.hue}" {name} d="{dots}"/>'
    faint = " faint" if line.faint else ""
    return f'<polyline class="line c{line.hue}{faint}" {name} points="{" ".join(places)}"/>'


def _strips(
    across: Axis, lines: Sequence[Line], point: Callable[[float], str], value: Callable[[float], str]
) -> str:
    """Each belongs to one step, and reaches half way to its neighbours."""
    known = sorted({x for line in lines for x, _ in thinned(line.points, _MOST_POINTS)})
    sampled = known[:: math.ceil(len(known) / _MOST_STRIPS)]
    # Rare points, such as evaluations, have a strip whatever is sampled.
    rare = [x for line in lines if len(line.points) <= _MOST_STRIPS // 3 for x, _ in line.points]
    steps = sorted({*sampled, *rare, known[-1]})
    labels: dict[float, list[str]] = {step: [] for step in steps}
    for line in lines:
        for x, y in line.points:
            if x in labels and len(labels[x]) < _MOST_WORDS:
                labels[x].append(escape(f"{line.name} {value(y)}"))
    places = [across.share(step) for step in steps]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(places)), 100.0]
    strips = (
        strip(left, right, place, "<br>".join([escape(point(step)), *labels[step]]))
        for step, place, left, right in zip(steps, places, edges, edges[1:], strict=False)
    )
    return f'<div class="strips">{"".join(strips)}</div>'


def strip(left: float, right: float, place: float, label: str) -> str:
    side = ' class="e"' if place > 50 else ""
    width = max(right - left, 0.01)
    style = f"left:{left:.2f}%;width:{width:.2f}%;--x:{(place - left) / width:.0%}"
    return f'<i{side} style="{style}"><b>{label}</b></i>'


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><i class="c{line.hue}{" faint" if line.faint else ""}{" dots" if line.dots else ""}"></i>'
        f"{escape(line.name)}</li>"
        for line in lines
    )
    return f'<ul class="legend">{items}</ul>'


@dataclass(frozen=True)
class Bin:
    least: float
    """Lengths above this and up to `most` are counted."""
    most: float
    count: int

    @property
    def words(self) -> str:
        shortest, longest = math.floor(self.least) + 1, round(self.most)
        lengths = f"{shortest:,} to {longest:,}" if longest > shortest else f"{longest:,}"
        return f"{lengths} tokens<br>{self.count:,} documents"


def lengths(title: str, counts: Sequence[tuple[int, int]], quantiles: Sequence[int] = ()) -> str:
    """`counts` are [most tokens, documents], as the cache describes them; lengths have a logarithmic axis.

    `quantiles` are the cache's too: shortest, a quarter, the median, and more.
    """
    bins = bins_of(counts)
    total = sum(bin.count for bin in bins)
    if not total:
        return ""
    up, across = axis_over([bin.count for bin in bins], 4, from_zero=True), _across(bins)
    grid = "".join(f"M0 {SIDE - up.place(tick):.2f}H{SIDE:.0f}" for tick in up.ticks)
    median, legend = _median(across, quantiles)
    bars = "".join(_bar(across, up, bin) for bin in bins)
    picture = svg(f'<path class="grid" d="{grid}"/>{bars}{median}', f"{title}: {total:,} documents")
    along = "".join(
        f'<span class="along" style="left:{across.share(tick):.3f}%">{label}</span>'
        for tick, label in zip(across.ticks, across.labels, strict=True)
    )
    strips = "".join(_strip(across, bin) for bin in bins)
    plot = f'{picture}{tick_words(up)}{along}<div class="strips">{strips}</div>'
    return card(title, legend, f"{up.factor} documents".strip(), "tokens in a document", plot)


def bins_of(counts: Sequence[tuple[int, int]]) -> list[Bin]:
    """An empty first bin only says where the second begins. Where nothing says so, bins double."""
    bins: list[Bin] = []
    before = 0.0
    for place, (most, count) in enumerate(counts):
        if place or count:
            bins.append(Bin(max(before, most / 2, 0.5), float(most), count))
        before = max(before, float(most), 0.5)
    return [bin for bin in bins if bin.most > bin.least]


def _across(bins: Sequence[Bin]) -> Axis:
    """Labels are round lengths, as many as there is room for."""
    low, high = bins[0].least, bins[-1].most
    if math.log2(high) - math.log2(low) < 1e-9:
        high = low * 2
    axis = Axis(low, high, (), (), logarithmic=True)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = _with_lengths(axis, (digit * 10.0**power for power in powers for digit in _ROUND))
    if len(found.ticks) < _FEWEST:  # All documents are about as long.
        step = max(1.0, _step(low, high, 6))
        found = _with_lengths(axis, ticks_between(low, high, step))
    return found if found.ticks else _with_lengths(axis, [high])


def _with_lengths(axis: Axis, lengths: Iterable[float]) -> Axis:
    whole = (length for length in lengths if float(length).is_integer())
    return _with_ticks(axis, whole, lambda length: f"{length:,.0f}")


def _bar(across: Axis, up: Axis, bin: Bin) -> str:
    left, right = across.place(bin.least), across.place(bin.most)
    height = up.place(bin.count)
    return (
        f'<rect class="bar" x="{left:.2f}" y="{SIDE - height:.2f}" '
        f'width="{right - left:.2f}" height="{height:.2f}"/>'
    )


def _strip(across: Axis, bin: Bin) -> str:
    left, right = across.share(bin.least), across.share(bin.most)
    return strip(left, right, (left + right) / 2, bin.words)


def _median(across: Axis, quantiles: Sequence[int]) -> tuple[str, str]:
    if len(quantiles) <= _MEDIAN:
        return "", ""
    median = quantiles[_MEDIAN]
    at = min(max(across.place(max(median, 1)), 0.0), SIDE)
    line = f'<path class="middle c1" d="M{at:.2f} 0V{SIDE:.0f}"/>'
    words = escape(f"half have at most {median:,} tokens")
    return line, f'<ul class="legend"><li><i class="c1"></i>{words}</li></ul>'
