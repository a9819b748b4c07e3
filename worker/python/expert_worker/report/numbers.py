"""Numbers as people read them, in the forms that the terminal uses."""

from datetime import UTC, datetime


def short(value: float) -> str:
    """Three digits, with a prefix where the number is large: 21700 -> 21.7k."""
    size = abs(value)
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= scale * 0.9995:
            return f"{value / scale:.{_decimals(value / scale)}f}{letter}"
    if 0 < size < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.4g}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def percent(value: float) -> str:
    return f"{value:.1%}"


def size(count: float) -> str:
    """3221225472 -> 3.00 GiB"""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    place = 0
    while count >= 999.5 and place + 1 < len(units):
        count, place = count / 1024, place + 1
    return f"{count:.{_decimals(count) if place else 0}f} {units[place]}"


def duration(seconds: float) -> str:
    """3725 -> 1h02m"""
    rounded = int(seconds)
    days, hours, minutes, rest = rounded // 86_400, rounded // 3_600 % 24, rounded // 60 % 60, rounded % 60
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    if minutes:
        return f"{minutes}m{rest:02}s"
    return f"{rest}s" if rest >= 10 else f"{seconds:.1f}s"


def moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%m-%d %H:%M:%S")


def _decimals(value: float) -> int:
    """Three digits that matter."""
    return 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
