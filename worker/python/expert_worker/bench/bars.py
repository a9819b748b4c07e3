"""Named bars; the first is what the others are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from expert_worker.bench.text import number
from expert_worker.report.parts import Raw, table


@dataclass(frozen=True)
class Bar:
    name: str
    value: float


def bars(title: str, drawn: Sequence[Bar]) -> str:
    """A card; nothing where there is nothing to draw."""
    most = max((bar.value for bar in drawn), default=0.0)
    if most <= 0:
        return ""
    rows = [
        [bar.name, _bar(bar.value / most, "c1" if place == 0 else "c0"), number(bar.value)]
        for place, bar in enumerate(drawn)
    ]
    body = table(["", "", ""], rows, frozenset({2}))
    return f"<figure><figcaption><b>{escape(title)}</b></figcaption>{body}</figure>"


def _bar(share: float, hue: str) -> Raw:
    width = f'style="width:{share * 100:.1f}%"'
    return Raw(
        f'<div class="use"><div class="bar" style="min-width:120px"><i class="{hue}" {width}></i></div></div>'
    )
