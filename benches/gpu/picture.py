"""The result of one run as a picture: tokens per second of each program in each case, and the floor."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from floor import floor
from programs import OTHERS, OURS, Program

from expert_worker.bench import svg
from expert_worker.report.charts import Axis, axis_over

# Drawn where the result has figures, or a reason why not.
PROGRAMS = (OURS, *OTHERS)
WIDTH, EDGE, LEFT, RIGHT = 640, 16, 208, 446
SPEED, SHARE = 542, WIDTH - EDGE
BAR, GAP = 18, 5
# As many characters as fit in the widest of the usual fonts.
LONGEST_LINE, LONGEST_ALARM, LONGEST_REASON, LONGEST_NAME = 78, 66, 52, 14


def picture(document: dict[str, Any]) -> str:
    cases = document["cases"]
    floors = [floor(case, document) for case in cases]
    axis = axis_over([1.0, *_speeds(cases), *filter(None, floors)], 4, from_zero=True, room=0.0)
    parts, y = _heads(document)
    parts.append(_text(RIGHT, y, "floor: the dashed line", "soft", "end"))
    parts += [_text(SPEED, y, "tokens/s", "soft", "end"), _text(SHARE, y, "of floor", "soft", "end")]
    y += 10
    top = y
    for case, at_most in zip(cases, floors, strict=True):
        y += 6
        parts.append(_text(EDGE, y + 14, _cut(case["name"], LONGEST_NAME)))
        for program, found in _sides(case):
            parts.append(_side(program, found, at_most, axis, y))
            y += BAR + GAP
        y += 6
    for tick in axis.ticks:
        parts.insert(0, f'<path class="tick" d="M{_x(axis, tick):.1f} {top}V{y}"/>')
        parts.append(_text(_x(axis, tick), y + 14, _short(tick), "soft", "middle"))
    y += 36
    if warning := _warning(document):
        parts.append(_text(EDGE, y, warning, "alarm"))
        y += 16
    return svg.picture(WIDTH, y, _label(document), "".join(parts))


def _heads(document: dict[str, Any]) -> tuple[list[str], int]:
    versions = [f"{it} {document['versions'].get(it, 'absent')}" for it in ("torch", "transformers")]
    others = [f"{it.label} {found}" for it in OTHERS if (found := _version(it, document["cases"]))]
    checks = document["equality"]
    equal = f"{sum(row['ok'] for row in checks)} of {len(checks)} fast paths equal the plain one"
    lines = [("head", "Tokens per second of training"), ("soft", str(document["device"]))]
    lines.append(("soft", f"{document['date']}, {', '.join(versions)}"))
    if others:
        lines.append(("soft", f"compared with {', '.join(others)}"))
    lines.append(("soft", equal))
    if peak := document["peak_operations"]:
        lines.append(("soft", f"floor: the device's {peak / 1e12:,.1f} TFLOP/s / operations per token"))
    if failed := document.get("equality_failed"):
        lines.append(("alarm", f"NOT CHECKED: {failed}"))
    if warning := _warning(document):
        lines.insert(0, ("alarm", warning))
    parts = [_text(EDGE, 26 + 19 * at, line, kind) for at, (kind, line) in enumerate(lines)]
    return parts, 26 + 19 * len(lines) + 8


def _version(program: Program, cases: list[dict[str, Any]]) -> str | None:
    """Of a program that ran; it may be installed elsewhere than we are."""
    return next((it[program.key]["versions"][program.key] for it in cases if program.key in it), None)


def _version(program: Program, cases: list[dict[str, Any]]) -> str | None:
    """Of a program that ran; it may be installed elsewhere than we are."""
    return next((it[program.key]["versions"][program.key] for it in cases if program.key in it), None)


def _warning(document: dict[str, Any]) -> str | None:
    return f"NOT A MEASUREMENT: {document['invalid']}" if document["invalid"] else None


def _sides(case: dict[str, Any]) -> Iterator[tuple[Program, float | str]]:
    """Speed of each program, or why there is none."""
    if why := case.get("left_out"):
        yield OURS, f"left out: {why}"
    for program in PROGRAMS:
        if program.key in case:
            yield program, float(case[program.key]["tokens_per_second"])
        elif why := case.get(f"{program.key}_failed"):
            yield program, str(why)
        elif why := case.get(f"{program.key}_left_out"):
            yield program, f"left out: {why}"


def _speeds(cases: list[dict[str, Any]]) -> list[float]:
    return [found for case in cases for _, found in _sides(case) if isinstance(found, float)]


def _side(program: Program, found: float | str, at_most: float | None, axis: Axis, y: int) -> str:
    parts = [_text(LEFT - 8, y + 14, program.label, "soft", "end")]
    if isinstance(found, str):
        title = f"<title>{_plain(found)}</title>"
        # Over the grid's lines.
        parts.append(f'<rect class="ground" x="{LEFT + 1}" y="{y}" width="{SHARE - LEFT}" height="{BAR}"/>')
        return "".join([*parts, _text(LEFT + 4, y + 14, _cut(found, LONGEST_REASON), "soft", more=title)])
    wide = max(1.0, _x(axis, found) - LEFT)
    parts += [
        f'<rect class="rail" x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{BAR}"/>',
        f'<rect fill="{program.colour}" x="{LEFT}" y="{y}" width="{wide:.1f}" height="{BAR}"/>',
        _text(SPEED, y + 14, f"{found:,.0f}", "", "end"),
        _text(SHARE, y + 14, _percent(found / at_most) if at_most else "-", "", "end"),
    ]
    if at_most:
        parts.append(f'<path class="step" d="M{_x(axis, at_most):.1f} {y - 2}V{y + BAR + 2}"/>')
    return "".join(parts)


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) / 100 * (RIGHT - LEFT)


def _text(x: float, y: int, words: str, kind: str = "", anchor: str = "start", more: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    said = _plain(_cut(words, LONGEST_ALARM if kind == "alarm" else LONGEST_LINE))
    return f'<text{named} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{said}{more}</text>'


def _plain(words: str) -> str:
    """Control characters are not XML, whatever a program's last line contained."""
    return escape("".join(it if it.isprintable() else " " for it in words))


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 10 else ">1,000%"


def _short(tick: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if tick >= size:
            return f"{tick / size:.4g}{unit}"
    return f"{tick:.3g}"


def _label(document: dict[str, Any]) -> str:
    """The same as words."""
    said = [
        f"{case['name']}: "
        + ", ".join(
            f"{it.label} {found:,.0f}" if isinstance(found, float) else f"{it.label} not measured"
            for it, found in _sides(case)
        )
        for case in document["cases"]
    ]
    words = f"Tokens per second on {document['device']}. {'; '.join(said)}"
    return f"{warning}. {words}" if (warning := _warning(document)) else words
