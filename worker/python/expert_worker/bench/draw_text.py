"""A timeline in the terminal: one line per lane, with its total."""

from __future__ import annotations

from collections.abc import Sequence

from expert_worker.bench.spans import LANES, Course
from expert_worker.bench.text import bar, number

_WIDTH = 60
_SHADES = " ░▒▓█"


def courses(drawn: Sequence[Course]) -> str:
    """Two timelines on the same scale, to compare before and after."""
    longest = max(course.seconds for course in drawn)
    lanes = [lane for lane in LANES if any(course.of(lane) for course in drawn)]
    return "\n\n".join(_course(course, lanes, longest) for course in drawn)


def _course(course: Course, lanes: Sequence[str], longest: float) -> str:
    speed = course.tokens / course.training_seconds if course.training_seconds else 0.0
    head = f"{course.name}: {course.seconds:.1f} s, {len(course.steps)} steps, {number(speed)} tokens/s"
    lines = [head]
    for lane in lanes:
        spent = course.spent(lane)
        share = spent / course.seconds if course.seconds else 0.0
        lines.append(f"  {lane:<17}|{_strip(course, lane, longest)}| {spent:8.2f} s {share:6.1%}")
    return "\n".join(lines)


def _strip(course: Course, lane: str, longest: float) -> str:
    """Each cell as dark as the part of its time that the lane was busy."""
    busy = [0.0] * _WIDTH
    cell = longest / _WIDTH if longest else 1.0
    for span in course.of(lane):
        first, last = int(span.begin / cell), min(_WIDTH - 1, int(span.end / cell))
        for place in range(first, last + 1):
            inside = min(span.end, (place + 1) * cell) - max(span.begin, place * cell)
            busy[place] += max(0.0, inside) / cell
    return "".join(_shade(share) for share in busy)


def _shade(share: float) -> str:
    if share <= 0:
        return " "
    return _SHADES[max(1, min(4, round(share * 4)))]


def comparison(before: Course, after: Course) -> str:
    """What changed, lane by lane, for each 1,000 tokens: runs may differ in length."""
    lines = ["seconds for 1,000 tokens of training"]
    most = max(_rate(course, lane) for course in (before, after) for lane in LANES) or 1.0
    for lane in LANES:
        old, new = _rate(before, lane), _rate(after, lane)
        if not old and not new:
            continue
        change = f"{old / new:.2f}x" if new > 0 and old > 0 else "gone" if old else "new"
        lines.append(
            f"  {lane:<17}{number(old):>9} {bar(old / most, 20)} -> "
            f"{number(new):>9} {bar(new / most, 20)} {change}"
        )
    return "\n".join(lines)


def _rate(course: Course, lane: str) -> float:
    return course.spent(lane) / course.tokens * 1000 if course.tokens else 0.0
