"""The frame of a picture: one SVG file with its style, readable on a light and on a dark background."""

from __future__ import annotations

from html import escape

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f27}.soft{fill:#5a6372;font-size:12px}"
    ".head{font-size:15px;font-weight:600}.rail{fill:#eef0f4}.ground{fill:#fff}.tick{stroke:#dfe3ea}"
    ".step{stroke:#5a6372;stroke-dasharray:2 3}.alarm{fill:#b3261e;font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#e7eaf0}.soft{fill:#98a2b3}.rail{fill:#252c38}"
    ".ground{fill:#1b2029}.tick{stroke:#2e3542}.alarm{fill:#ff8a80}}"
)


def picture(width: int, height: int, label: str, body: str) -> str:
    """`label` describes the picture to those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}"><style>{_STYLE}</style>'
        f'<rect class="ground" width="{width}" height="{height}"/>{body}</svg>\n'
    )
