"""How many documents there are of what length."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from expert_worker.report.axes import SIDE, Axis, axis_over
from expert_worker.report.charts import card, strip, svg, tick_words

_MEDIAN = 2
_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
_APART = 8.0
"""Percent of the picture's width that a label takes."""


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
    """Places are those of the lengths' logarithms; labels are round lengths, as many as there is room for."""
    low, high = math.log2(bins[0].least), math.log2(bins[-1].most)
    if high - low < 1e-9:
        high = low + 1
    powers = range(math.floor(math.log10(bins[0].least)), math.ceil(math.log10(bins[-1].most)) + 1)
    ticks: list[float] = []
    for length in (digit * 10.0**power for power in powers for digit in _ROUND):
        place = math.log2(length)
        apart = not ticks or (place - ticks[-1]) / (high - low) * 100 >= _APART
        if low <= place <= high and length >= 1 and length.is_integer() and apart:
            ticks.append(place)
    return Axis(low, high, tuple(ticks), tuple(f"{round(2**tick):,}" for tick in ticks))


def _bar(across: Axis, up: Axis, bin: Bin) -> str:
    left, right = across.place(math.log2(bin.least)), across.place(math.log2(bin.most))
    height = up.place(bin.count)
    return (
        f'<rect class="bar" x="{left:.2f}" y="{SIDE - height:.2f}" '
        f'width="{right - left:.2f}" height="{height:.2f}"/>'
    )


def _strip(across: Axis, bin: Bin) -> str:
    left, right = across.share(math.log2(bin.least)), across.share(math.log2(bin.most))
    return strip(left, right, (left + right) / 2, bin.words)


def _median(across: Axis, quantiles: Sequence[int]) -> tuple[str, str]:
    if len(quantiles) <= _MEDIAN:
        return "", ""
    median = quantiles[_MEDIAN]
    at = min(max(across.place(math.log2(max(median, 1))), 0.0), SIDE)
    line = f'<path class="middle c1" d="M{at:.2f} 0V{SIDE:.0f}"/>'
    words = escape(f"half have at most {median:,} tokens")
    return line, f'<ul class="legend"><li><i class="c1"></i>{words}</li></ul>'
