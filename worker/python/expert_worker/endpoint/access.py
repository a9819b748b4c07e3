"""Who may ask: the token, and the names under which a server on loopback is reached."""

from __future__ import annotations

import hmac
import os
import shlex
import stat
from pathlib import Path

from aiohttp import web

from expert_worker.endpoint import page
from expert_worker.endpoint.refusals import Refused
from expert_worker.errors import BadInput
from expert_worker.loopback import is_loopback

TOKEN_VARIABLE = "EXPERT_SERVE_TOKEN"  # noqa: S105 (its name)
_SHORTEST = 16
_MAKE_ONE = "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
# The page asks for the token itself, and programs that watch a server have none.
_OPEN = frozenset({*page.FILES, "/health"})


def read_token(file: Path | None) -> str | None:
    """From the file, else from the environment; never from the command line, which every user can see."""
    if file is None:
        source, token = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    else:
        source = str(file)
        try:
            token = file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadInput(
                f"Cannot read the token file {file}: {error.strerror or error}", hint=_MAKE_ONE, code="token"
            ) from None
        except UnicodeDecodeError:
            token = ""
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(
            f"The token in {source} is not {_SHORTEST} or more printable ASCII characters without spaces",
            hint=_MAKE_ONE,
            code="token",
        )
    return token


def readable_by_others(file: Path) -> str | None:
    """Says so where other users of this machine can read the token."""
    if os.name == "nt" or not file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return None
    return f"Other users here can read the token in {file}: run `chmod 600 {shlex.quote(str(file))}`"


def demand_token(host: str, token: str | None) -> None:
    if token is None and not is_loopback(host):
        raise BadInput(
            f"--host {host} can be reached from other machines, and there is no token",
            hint=f"Give one with --token-file FILE or {TOKEN_VARIABLE}, or leave --host out.",
            code="token-missing",
        )


def check(request: web.Request, token: str | None) -> None:
    if token is None:
        _check_name(request)
    elif request.path not in _OPEN:
        given = request.headers.get("Authorization", "")
        scheme, _, value = given.partition(" ")
        # aiohttp has bytes of a header that are not UTF-8 as surrogates.
        right = hmac.compare_digest(value.strip().encode(errors="surrogateescape"), token.encode())
        if scheme.lower() != "bearer" or not right:
            raise Refused(
                401,
                "The token is missing or wrong; send it as `Authorization: Bearer TOKEN`",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def _check_name(request: web.Request) -> None:
    """A web page must not reach a server without a token through another name for this machine."""
    name = request.headers.get("Host", "").strip()
    host = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if host not in _LOCAL_NAMES and not is_loopback(host):
        raise Refused(403, "This server answers on localhost only", code="wrong_host")


def demand_json(request: web.Request) -> None:
    """Another site's form can send any other type without being asked for permission."""
    if request.content_type != "application/json":
        raise Refused(415, "The body must be application/json", code="content_type")
