"""A course as an SVG picture that needs nothing beside it: lanes over time, and a few steps from near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from expert_worker.bench.spans import LANES, Course

_WIDTH, _LEFT, _RIGHT, _LANE, _GAP = 980, 150, 120, 22, 6
_NEAR_STEPS = 4
# Apart from each other also for those who see few colours, on light ground and on dark.
_COLOURS = dict(
    zip(
        LANES,
        ("#c2570c", "#8a6d3b", "#d1a21f", "#8e5bb5", "#4a90d9", "#1a7f4b", "#5f6b7a", "#1f6fd1", "#a33a6a"),
        strict=True,
    )
)
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f27}.soft{fill:#5a6372;font-size:12px}"
    ".head{font-size:15px;font-weight:600}.rail{fill:#eef0f4}.ground{fill:#fff}.tick{stroke:#dfe3ea}"
    ".step{stroke:#5a6372;stroke-dasharray:2 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e7eaf0}.soft{fill:#98a2b3}.rail{fill:#252c38}"
    ".ground{fill:#1b2029}.tick{stroke:#2e3542}}"
)


@dataclass(frozen=True)
class Window:
    """A stretch of a course."""

    title: str
    begin: float
    end: float
    near: bool = False


def picture(courses: Sequence[Course]) -> str:
    """Every course on the same scale, whole and from near."""
    lanes = [lane for lane in LANES if any(course.of(lane) for course in courses)]
    parts, top = [], 16
    for course, windows in zip(courses, _windows(courses), strict=True):
        for window in windows:
            drawn, height = _panel(course, window, lanes, top)
            parts.append(drawn)
            top += height
    words = "; ".join(f"{course.name}: {course.seconds:.1f} s" for course in courses)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
        f'aria-label="{escape(words)}"><style>{_STYLE}</style>'
        f'<rect class="ground" width="{_WIDTH}" height="{top}"/>{"".join(parts)}</svg>\n'
    )


def _windows(courses: Sequence[Course]) -> list[list[Window]]:
    """Of the same length for all, so that one that is shorter also looks it."""
    whole = max((course.seconds for course in courses), default=0.0) or 1.0
    near = max((_near(course)[1] - _near(course)[0] for course in courses), default=0.0)
    found = []
    for course in courses:
        speed = course.tokens / course.training_seconds if course.training_seconds else 0.0
        title = f"{course.name} — {course.seconds:.1f} s, {len(course.steps)} steps, {speed:,.0f} tokens/s"
        windows = [Window(title, 0.0, whole)]
        if near:
            begin = _near(course)[0]
            windows.append(
                Window(f"{course.name}, {_NEAR_STEPS} steps from near", begin, begin + near, near=True)
            )
        found.append(windows)
    return found


def _near(course: Course) -> tuple[float, float]:
    """Some steps that follow each other, past the first, which warms up."""
    steps = course.steps[1 : 1 + _NEAR_STEPS] or course.steps
    return (steps[0][0], steps[-1][1]) if steps else (0.0, 0.0)


def _panel(course: Course, window: Window, lanes: Sequence[str], top: int) -> tuple[str, int]:
    length = window.end - window.begin
    parts = [f'<text class="head" x="16" y="{top + 12}">{escape(window.title)}</text>']
    y = top + 24
    for lane in lanes:
        parts.append(_rail(course, window, lane, y))
        y += _LANE + _GAP
    if window.near:
        parts.append(_boundaries(course, window, top + 24, y))
    for place in range(6):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * place / 5
        at = window.begin + length * place / 5
        parts.append(f'<path class="tick" d="M{x:.1f} {top + 24}V{y}"/>')
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{y + 12}" text-anchor="middle">{_clock(at, length)}</text>'
        )
    return "".join(parts), y + 34 - top


def _boundaries(course: Course, window: Window, top: int, bottom: int) -> str:
    """Where one step ends and the next begins."""
    wide, length = _WIDTH - _LEFT - _RIGHT, window.end - window.begin
    inside = [begin for begin, _ in course.steps if window.begin < begin < window.end]
    xs = [_LEFT + (begin - window.begin) / length * wide for begin in inside]
    return "".join(f'<path class="step" d="M{x:.1f} {top}V{bottom}"/>' for x in xs)


def _rail(course: Course, window: Window, lane: str, y: int) -> str:
    wide, length = _WIDTH - _LEFT - _RIGHT, window.end - window.begin
    parts = [
        f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(lane)}</text>',
        f'<rect class="rail" x="{_LEFT}" y="{y}" width="{wide}" height="{_LANE}"/>',
    ]
    inside = 0.0
    for span in course.of(lane):
        begin, end = max(span.begin, window.begin), min(span.end, window.end)
        if end <= begin:
            continue
        inside += end - begin
        x = _LEFT + (begin - window.begin) / length * wide
        parts.append(
            f'<rect fill="{_COLOURS[lane]}" x="{x:.2f}" y="{y}" '
            f'width="{max(0.4, (end - begin) / length * wide):.2f}" height="{_LANE}"/>'
        )
    held = min(length, max(0.0, course.seconds - window.begin)) or 1.0
    told = f"{_seconds(inside)}  {inside / held:.0%}"
    parts.append(f'<text class="soft" x="{_WIDTH - _RIGHT + 10}" y="{y + 15}">{told}</text>')
    return "".join(parts)


def _clock(at: float, length: float) -> str:
    return f"{at:.0f} s" if length >= 20 else f"{at:.2f} s"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.3g} ms"
