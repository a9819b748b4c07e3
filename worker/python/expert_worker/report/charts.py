"""Curves and histograms as inline SVG, coloured by the page's style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 520, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 30
_MOST_POINTS = 600


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


@dataclass(frozen=True)
class _Frame:
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x0) / (self.x1 - self.x0) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (_HEIGHT - _TOP - _BOTTOM)


def curve(title: str, lines: Sequence[Line], *, from_zero: bool = False) -> str:
    """A card with a line chart; nothing where there is nothing to draw."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    frame = _frame([point for line in drawn for point in line.points], from_zero)
    parts = [_grid(frame), *(_path(frame, line, place) for place, line in enumerate(drawn))]
    legend = _legend(drawn) if len(drawn) > 1 else ""
    return _card(title, legend, "".join(parts), _words(title, drawn))


def histogram(title: str, bins: Sequence[tuple[str, float]], unit: str) -> str:
    if not bins or not any(count for _, count in bins):
        return ""
    most = max(count for _, count in bins)
    frame = _Frame(0, len(bins), 0, _nice_top(most))
    bars = []
    for place, (name, count) in enumerate(bins):
        left, right = frame.x(place) + 1, frame.x(place + 1) - 1
        top = frame.y(count)
        label = escape(f"{name}: {count:,.0f} {unit}")
        bars.append(
            f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.5):.1f}" '
            f'height="{max(_HEIGHT - _BOTTOM - top, 0):.1f}"><title>{label}</title></rect>'
        )
    every = max(1, math.ceil(len(bins) / 8))
    names = "".join(
        f'<text class="tick" x="{(frame.x(place) + frame.x(place + 1)) / 2:.1f}" y="{_HEIGHT - 10}" '
        f'text-anchor="middle">{escape(name)}</text>'
        for place, (name, _) in enumerate(bins)
        if place % every == 0
    )
    body = _rows(frame) + "".join(bars) + names
    total = sum(count for _, count in bins)
    return _card(title, "", body, f"{title}: {total:,.0f} {unit} in {len(bins)} bins")


def _frame(points: Sequence[tuple[float, float]], from_zero: bool) -> _Frame:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = (0.0 if from_zero else min(ys)), max(ys)
    if high == low:
        low, high = low - (abs(low) or 1) * 0.1, high + (abs(high) or 1) * 0.1
    room = (high - low) * 0.05
    left, right = min(xs), max(xs)
    return _Frame(left, right if right > left else left + 1, low if from_zero else low - room, high + room)


def _grid(frame: _Frame) -> str:
    columns = "".join(
        f'<text class="tick" x="{frame.x(value):.1f}" y="{_HEIGHT - 10}" text-anchor="middle">'
        f"{short(value)}</text>"
        for value in _ticks(frame.x0, frame.x1, 6)
    )
    return _rows(frame) + columns


def _rows(frame: _Frame) -> str:
    return "".join(
        f'<path class="grid" d="M{_LEFT} {frame.y(v):.1f}H{_WIDTH - _RIGHT}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{frame.y(v) + 4:.1f}" text-anchor="end">{short(v)}</text>'
        for v in _ticks(frame.y0, frame.y1, 5)
    )


def _path(frame: _Frame, line: Line, place: int) -> str:
    points = thinned(line.points)
    steps = [f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points]
    path = f'<polyline class="line c{place}" points="{" ".join(steps)}"/>'
    if not line.dots and len(points) > 1:
        return path
    dots = "".join(
        f'<circle class="dot c{place}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3">'
        f"<title>{escape(line.name)} at {x:g}: {y:.5g}</title></circle>"
        for x, y in points
    )
    return path + dots


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of a long curve the lowest and highest point of each stretch, so that no spike is lost."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    size = math.ceil(len(points) / (_MOST_POINTS // 2))
    kept: list[tuple[float, float]] = [points[0]]
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        kept += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    return [*kept, points[-1]]


def _ticks(low: float, high: float, count: int) -> list[float]:
    rough = (high - low) / count
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _nice_top(most: float) -> float:
    return most * 1.05


def short(value: float) -> str:
    size = abs(value)
    if size >= 1e9:
        return f"{value / 1e9:.3g}G"
    if size >= 1e6:
        return f"{value / 1e6:.3g}M"
    if size >= 1e4:
        return f"{value / 1e3:.3g}k"
    if 0 < size < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.4g}"


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><i class="c{place}"></i>{escape(line.name)}</li>' for place, line in enumerate(lines)
    )
    return f'<ul class="legend">{items}</ul>'


def _words(title: str, lines: Sequence[Line]) -> str:
    """What the picture says, for those who cannot see it."""
    parts = [f"{line.name} from {line.points[0][1]:.4g} to {line.points[-1][1]:.4g}" for line in lines]
    return f"{title}: {'; '.join(parts)}"


def _card(title: str, legend: str, body: str, words: str) -> str:
    return (
        f'<figure><figcaption>{escape(title)}{legend}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{escape(words)}">{body}</svg></figure>'
    )
