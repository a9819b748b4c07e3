"""A share right with its 95% interval: the base's as a ring, the adapter's as a disc, one above the other."""

from expert_worker.recorded import Score
from expert_worker.recorded import Share as ShareOfRows
from expert_worker.report.axes import SIDE
from expert_worker.report.charts import svg
from expert_worker.report.numbers import percent
from expert_worker.report.parts import Raw

Share = ShareOfRows | Score
_HEIGHTS = {"base": 300, "adapter": 700}
_HUES = {"base": 1, "adapter": 0}


def picture(base: Share | None, adapter: Share | None) -> Raw:
    sides = {"base": base, "adapter": adapter}
    known = {who: share for who, share in sides.items() if share and share.accuracy is not None}
    if not known:
        return Raw("")
    drawn = "".join(_mark(who, share) for who, share in known.items())
    words = "; ".join(f"{who} {describe(share)}" for who, share in known.items())
    return Raw(f'<span class="share">{svg(f"{_SCALE}{drawn}", words)}</span>')


_SCALE = f'<path class="grid" d="{"".join(f"M{at * SIDE / 4:.0f} 0V{SIDE:.0f}" for at in range(5))}"/>'


def _mark(who: str, share: Share) -> str:
    height, hue = _HEIGHTS[who], _HUES[who]
    right = share.accuracy or 0.0
    low = right if share.low is None else share.low
    high = right if share.high is None else share.high
    dot = f'd="M{right * SIDE:.1f} {height}h0"'
    ring = f'<path class="hole" {dot}/>' if who == "base" else ""
    reach = f'<path class="reach c{hue}" d="M{low * SIDE:.1f} {height}H{high * SIDE:.1f}"/>'
    return f'{reach}<path class="dot c{hue}" {dot}/>{ring}'


def describe(share: Share) -> str:
    known = share.low is not None and share.high is not None
    reach = f" (95%: {share.low:.0%} to {share.high:.0%})" if known else ""
    return f"{number(share)}{reach}"


def number(share: Share | None) -> str:
    return percent(share.accuracy) if share and share.accuracy is not None else ""


def apart(base: Share, adapter: Share) -> bool:
    """Whether the intervals do not overlap, so that chance does not explain the difference."""
    return _above(adapter, base) or _above(base, adapter)


def _above(one: Share, other: Share) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


def gain(base: Share | None, adapter: Share | None) -> float | None:
    """In points of a hundred."""
    if not base or not adapter or base.accuracy is None or adapter.accuracy is None:
        return None
    return (adapter.accuracy - base.accuracy) * 100
