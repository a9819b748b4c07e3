"""Errors in OpenAI's shape."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refused(Exception):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        self.headers = dict(headers or {})

    def document(self) -> dict[str, object]:
        usual = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = _TYPES.get(self.status, usual)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> web.Response:
        return web.Response(
            status=self.status,
            text=json.dumps(self.document()),
            content_type="application/json",
            headers=self.headers,
        )


def unknown_model(name: str, known: list[str]) -> Refused:
    shown = name if len(name) <= 100 else f"{name[:100]}..."
    return Refused(
        404,
        f"There is no model {shown!r} here; there are {', '.join(known)}",
        code="model_not_found",
        param="model",
    )
