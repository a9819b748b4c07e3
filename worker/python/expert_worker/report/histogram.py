"""How many documents there are of what length."""

import math
from collections.abc import Callable, Sequence
from html import escape

from expert_worker.report.axes import SIDE, axis_over
from expert_worker.report.charts import card, strip, svg, tick_words

Bins = Sequence[tuple[int, int]]
_NARROWEST = 6.0
_MEDIAN = 2


def lengths(title: str, bins: Bins, quantiles: Sequence[int] = ()) -> str:
    """`bins` are [most tokens, documents]; lengths lie on a logarithmic axis, as the bins do.

    `quantiles` are those of the cache's description: shortest, a quarter, the median, and more.
    """
    if not bins or not any(count for _, count in bins):
        return ""
    up = axis_over([count for _, count in bins], 4, from_zero=True)
    spans = _spans(bins)
    low, high = math.log2(spans[0][0]), math.log2(spans[-1][1])

    def share(length: float) -> float:
        return (math.log2(length) - low) / (high - low) * 100

    bars, strips = [], []
    for (least, most), (_, count) in zip(spans, bins, strict=True):
        left, right = share(least), share(most)
        height = up.place(count)
        bars.append(
            f'<rect class="bar" data-count="{count}" x="{left * SIDE / 100:.2f}" y="{SIDE - height:.2f}" '
            f'width="{(right - left) * SIDE / 100:.2f}" height="{height:.2f}"/>'
        )
        told = f"{_range(least, most)} tokens<br>{count:,} documents"
        strips.append(strip(left, right, (left + right) / 2, told))
    grid = "".join(f"M0 {SIDE - up.place(tick):.2f}H{SIDE:.0f}" for tick in up.ticks)
    total = sum(count for _, count in bins)
    middle, legend = "", ""
    if len(quantiles) > _MEDIAN:
        median = quantiles[_MEDIAN]
        at = share(min(max(median, spans[0][0]), spans[-1][1])) * SIDE / 100
        middle = f'<path class="middle c1" d="M{at:.2f} 0V{SIDE:.0f}"/>'
        legend = f'<ul class="legend"><li><i class="c1"></i>half have at most {median:,} tokens</li></ul>'
    picture = svg(f'<path class="grid" d="{grid}"/>{"".join(bars)}{middle}', f"{title}: {total:,} documents")
    plot = picture + tick_words(up) + _bounds(spans, share) + f'<div class="strips">{"".join(strips)}</div>'
    return card(title, legend, f"{up.factor} documents".strip(), "tokens in a document", plot)


def _spans(bins: Bins) -> list[tuple[float, float]]:
    """From where to where each bin reaches: bounds double where nothing lies between two bins."""
    spans: list[tuple[float, float]] = []
    for most, _ in bins:
        least = max(spans[-1][1] if spans else 0.0, most / 2)
        spans.append((least, max(float(most), least * 1.0001)))
    return spans


def _range(least: float, most: float) -> str:
    return escape(f"{int(least) + 1:,} to {int(most):,}" if most - least > 1 else f"{int(most):,}")


def _bounds(spans: Sequence[tuple[float, float]], share: Callable[[float], float]) -> str:
    bounds = [spans[0][0], *(most for _, most in spans)]
    made, last = [], -_NARROWEST
    for bound in bounds:
        place = share(bound)
        if place - last >= _NARROWEST:
            made.append(f'<span class="along" style="left:{place:.3f}%">{int(bound):,}</span>')
            last = place
    return "".join(made)
