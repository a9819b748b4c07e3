"""Pieces of HTML. Whatever text goes in is escaped here; `Raw` marks what is markup already."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from expert_worker.terminal import INVISIBLE, visible

# The page shows text that models wrote: whatever it says, it may load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LINE_END = re.compile("\r\n?")
_MOODS = {"finished": "good", "failed": "bad"}


class Raw(str):
    """Markup made by this package."""

    __slots__ = ()


def text(value: object) -> str:
    return str(value) if isinstance(value, Raw) else escape(str(value))


def quoted(value: str) -> str:
    """What a model or a data set says. Hidden characters are a part of it, and their numbers are shown."""
    return escape(INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", _LINE_END.sub("\n", value)))


def document(title: str, sections: Iterable[str]) -> str:
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    body = "\n".join(filter(None, sections))
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body><main>\n{body}\n</main></body>\n</html>\n"
    )
    # Names and reasons may not turn the page's own words around. HTML reads a lone CR as the end of a line.
    return visible(_LINE_END.sub("\n", page))


def heading(title: str, lead: str) -> str:
    return f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'


def charts(drawn: Iterable[str]) -> Raw:
    """A grid of charts; empty if all are."""
    body = "".join(drawn)
    return Raw(f'<div class="charts">{body}</div>' if body else "")


def section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>" if body else ""


def state(word: str) -> Raw:
    return Raw(f'<span class="state {_MOODS.get(word, "warn")}">{escape(word)}</span>')


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in numbers
    )
    return f'<div class="tiles">{items}</div>' if items else ""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: frozenset[int] = frozenset(),
    kind: str = "",
) -> str:
    """`numbers` are the columns set to the right. Cells know their head, for screens too narrow for it."""
    if not rows:
        return ""
    heads = "".join(f"<th{_class(place, numbers)}>{text(cell)}</th>" for place, cell in enumerate(head))
    top = f"<thead><tr>{heads}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{_cells(head, row, numbers)}</tr>" for row in rows)
    name = f' class="{kind}"' if kind else ""
    return f'<div class="box"><table{name}>{top}<tbody>{body}</tbody></table></div>'


def _cells(head: Sequence[str], row: Sequence[object], numbers: frozenset[int]) -> str:
    return "".join(
        f'<td{_class(place, numbers)} data-head="{escape(name)}">{text(cell)}</td>'
        for place, (name, cell) in enumerate(zip(head, row, strict=True))
    )


def _class(place: int, numbers: frozenset[int]) -> str:
    return " class=n" if place in numbers else ""


def fold(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{text(body)}</details>"


def pre(body: str) -> Raw:
    return Raw(f"<pre>{quoted(body)}</pre>")
