"""Numbers as people read them."""

from datetime import UTC, datetime


def short(value: float) -> str:
    """Four digits at most, with a prefix where the number is large."""
    size = abs(value)
    for least, scale, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            return f"{value / scale:.3g}{letter}"
    if 0 < size < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.4g}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{value:.1%}"


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.2f} GB"


def duration(seconds: float) -> str:
    rounded = round(seconds)
    hours, minutes, rest = rounded // 3600, rounded // 60 % 60, rounded % 60
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"


def moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%m-%d %H:%M:%S")
