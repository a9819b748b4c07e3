"""A page of charts that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, lead: str, sections: Sequence[str]) -> str:
    style = resources.files("expert_worker.report").joinpath("style.css").read_text(encoding="utf-8")
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body><main>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n{body}\n</main></body>\n</html>\n'
    )


def charts(drawn: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(drawn)}</div>' if any(drawn) else ""
