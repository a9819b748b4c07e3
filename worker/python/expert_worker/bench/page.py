"""A page of charts that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from expert_worker.report.parts import Raw, document


def page(title: str, lead: str, sections: Sequence[str]) -> str:
    head = f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'
    return document(title, [head, *sections])


def charts(drawn: Sequence[str]) -> Raw:
    return Raw(f'<div class="charts">{"".join(drawn)}</div>' if any(drawn) else "")
