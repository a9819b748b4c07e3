"""Mean, least, most, median and 95th percentile of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

Summary = dict[str, float]


def summarize(values: Sequence[float]) -> Summary | None:
    """None where nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "mean": sum(ordered) / len(ordered),
        "min": ordered[0],
        "max": ordered[-1],
        "p50": percentile(ordered, 50),
        "p95": percentile(ordered, 95),
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Between the two nearest of the sorted values, in proportion."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
