"""A share right with its 95% interval: the base's as a ring, the adapter's as a disc, one above the other."""

from typing import Any

from expert_worker.report.axes import SIDE
from expert_worker.report.charts import svg
from expert_worker.report.numbers import percent
from expert_worker.report.parts import Raw

Share = dict[str, Any]
_HEIGHTS = {"base": 300, "adapter": 700}
_HUES = {"base": 1, "adapter": 0}


def picture(base: Share | None, adapter: Share | None) -> Raw:
    sides = {"base": base, "adapter": adapter}
    known = {who: share for who, share in sides.items() if share and "accuracy" in share}
    if not known:
        return Raw("")
    drawn = "".join(_mark(who, share) for who, share in known.items())
    words = "; ".join(f"{who} {told(share)}" for who, share in known.items())
    return Raw(f'<span class="share">{svg(f"{_SCALE}{drawn}", words)}</span>')


_SCALE = f'<path class="grid" d="{"".join(f"M{at * SIDE / 4:.0f} 0V{SIDE:.0f}" for at in range(5))}"/>'


def _mark(who: str, share: Share) -> str:
    height, hue = _HEIGHTS[who], _HUES[who]
    right = float(share["accuracy"])
    low, high = float(share.get("low", right)) * SIDE, float(share.get("high", right)) * SIDE
    dot = f'd="M{right * SIDE:.1f} {height}h0"'
    ring = f'<path class="hole" {dot}/>' if who == "base" else ""
    reach = f'<path class="reach c{hue}" d="M{low:.1f} {height}H{high:.1f}"/>'
    return f'{reach}<path class="dot c{hue}" {dot}/>{ring}'


def told(share: Share) -> str:
    reach = f" (95%: {share['low']:.0%} to {share['high']:.0%})" if "low" in share else ""
    return f"{percent(share['accuracy'])}{reach}"


def number(share: Share | None) -> str:
    return percent(share["accuracy"]) if share and "accuracy" in share else ""


def apart(base: Share, adapter: Share) -> bool:
    """Whether the intervals do not touch, so that chance is no explanation."""
    return bool(
        adapter.get("low", 0.0) > base.get("high", 1.0) or base.get("low", 0.0) > adapter.get("high", 1.0)
    )


def gain(base: Share | None, adapter: Share | None) -> float | None:
    """In points of a hundred."""
    if not base or not adapter or "accuracy" not in base or "accuracy" not in adapter:
        return None
    return float(adapter["accuracy"] - base["accuracy"]) * 100
