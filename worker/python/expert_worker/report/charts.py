"""Curves: a stretched SVG for the lines, HTML for the labels, and one strip per point that shows its numbers
under the pointer.
There
is no script: the style sheet makes the tooltips.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from expert_worker.report.axes import SIDE, Axis, axis_over, steps_axis
from expert_worker.report.numbers import short
from expert_worker.report.series import Points, thinned

_MOST_POINTS = 600
_MOST_STRIPS = 150
_MOST_WORDS = 8


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
) -> str:
    """A card with a line chart; nothing where there is nothing to draw."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    across = steps_axis([x for line in drawn for x, _ in line.points])
    up = axis_over([y for line in drawn for _, y in line.points], 4, from_zero=from_zero)
    picture = _grid(up) + "".join(_path(across, up, line) for line in drawn)
    legend = _legend(drawn) if len(drawn) > 1 else ""
    return card(
        title,
        legend,
        f"{up.factor} {unit}".strip(),
        along,
        svg(picture, words(title, unit, drawn)) + _ticks(across, up) + _strips(across, drawn),
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
        f'<span class="along" style="left:{across.share(tick):.3f}%">{label}</span>'
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


def _strips(across: Axis, lines: Sequence[Line]) -> str:
    """Each belongs to one step, and reaches half way to its neighbours."""
    known = sorted({x for line in lines for x, _ in thinned(line.points, _MOST_POINTS)})
    sampled = known[:: math.ceil(len(known) / _MOST_STRIPS)]
    # Rare points, such as evaluations, have a strip whatever is sampled.
    rare = [x for line in lines if len(line.points) <= _MOST_STRIPS // 3 for x, _ in line.points]
    steps = sorted({*sampled, *rare, known[-1]})
    told: dict[float, list[str]] = {step: [] for step in steps}
    for line in lines:
        for x, y in line.points:
            if x in told and len(told[x]) < _MOST_WORDS:
                told[x].append(f"{escape(line.name)} {short(y)}")
    places = [across.share(step) for step in steps]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(places)), 100.0]
    strips = (
        strip(left, right, place, f"step {step:,.0f}<br>{'<br>'.join(told[step])}")
        for step, place, left, right in zip(steps, places, edges, edges[1:], strict=False)
    )
    return f'<div class="strips">{"".join(strips)}</div>'


def strip(left: float, right: float, place: float, told: str) -> str:
    side = ' class="e"' if place > 50 else ""
    width = max(right - left, 0.01)
    style = f"left:{left:.2f}%;width:{width:.2f}%;--x:{(place - left) / width:.0%}"
    return f'<i{side} style="{style}"><b>{told}</b></i>'


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><i class="c{line.hue}{" faint" if line.faint else ""}{" dots" if line.dots else ""}"></i>'
        f"{escape(line.name)}</li>"
        for line in lines
    )
    return f'<ul class="legend">{items}</ul>'
