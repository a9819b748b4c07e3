"""The web page at `/`: base and expert side by side. It loads nothing from anywhere else."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

_FOLDER = Path(__file__).parent
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def show(request: web.Request) -> web.Response:
    name, kind = FILES[request.path]
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return web.Response(text=text, content_type=kind, charset="utf-8", headers=_HEADERS)
