"""Named bars as inline SVG; the first is what the others are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from expert_worker.bench.text import number

_WIDTH, _NAMES, _NUMBERS, _ROW = 520, 200, 60, 24


@dataclass(frozen=True)
class Bar:
    name: str
    value: float


def bars(title: str, drawn: Sequence[Bar]) -> str:
    """A card; nothing where there is nothing to draw."""
    most = max((bar.value for bar in drawn), default=0.0)
    if most <= 0:
        return ""
    wide, height = _WIDTH - _NAMES - _NUMBERS, len(drawn) * _ROW + 8
    mark = _NAMES + drawn[0].value / most * wide
    rows = "".join(_row(bar, place, bar.value / most * wide) for place, bar in enumerate(drawn))
    line = f'<path class="grid" d="M{mark:.1f} 4V{height - 4}"/>'
    words = "; ".join(f"{bar.name} {number(bar.value)}" for bar in drawn)
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {height}" '
        f'role="img" aria-label="{escape(f"{title}: {words}")}">{rows}{line}</svg></figure>'
    )


def _row(bar: Bar, place: int, wide: float) -> str:
    y = place * _ROW + 4
    return (
        f'<text class="tick" x="{_NAMES - 8}" y="{y + 15}" text-anchor="end">{escape(bar.name)}</text>'
        f'<rect class="bar" x="{_NAMES}" y="{y + 2}" width="{max(0.5, wide):.1f}" height="{_ROW - 6}"/>'
        f'<text class="tick" x="{_NAMES + wide + 6:.1f}" y="{y + 15}">{number(bar.value)}</text>'
    )
