"""Pieces of HTML. Whatever text goes in is escaped here; `Raw` marks what is markup already."""

from collections.abc import Iterable, Sequence
from html import escape


class Raw(str):
    """Markup made by this package."""

    __slots__ = ()


def text(value: object) -> str:
    return str(value) if isinstance(value, Raw) else escape(str(value))


def section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in numbers
    )
    return f'<div class="tiles">{items}</div>' if items else ""


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], numbers: frozenset[int] = frozenset()
) -> str:
    """`numbers` are the columns that are set to the right."""
    if not rows:
        return ""
    top = _row("th", head, numbers) if any(head) else ""
    return f'<div class="box"><table>{top}{"".join(_row("td", row, numbers) for row in rows)}</table></div>'


def _row(kind: str, cells: Sequence[object], numbers: frozenset[int]) -> str:
    made = "".join(
        f"<{kind}{' class=n' if place in numbers else ''}>{text(cell)}</{kind}>"
        for place, cell in enumerate(cells)
    )
    return f"<tr>{made}</tr>"


def meter(share: float, place: int) -> Raw:
    width = max(0.0, min(1.0, share)) * 100
    return Raw(f'<span class="meter c{place}"><i style="width:{width:.1f}%"></i></span>')


def fold(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(body)}</pre></details>"
