"""How many connections may be open: nobody needs a token to open one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from aiohttp import web

# A connection that has sent no whole request for this long is closed.
IDLE_SECONDS = 75.0
_MOST = 1000
_SAY_AGAIN_SECONDS = 60.0


class Connections:
    """aiohttp's connections up to a limit; more are closed as soon as they are taken.

    A process that is out of file descriptors can take no connection at all, nor start its engine again.
    """

    def __init__(self, runner: web.AppRunner, say: Callable[[str], None]) -> None:
        assert runner.server is not None, "the runner is set up"
        self._aiohttp = runner.server
        self._say = say
        self._most = most_connections()
        self._said = -_SAY_AGAIN_SECONDS
        self._server: asyncio.Server | None = None

    async def take(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, sock=listener, backlog=128)

    def take_no_more(self) -> None:
        if self._server is not None:
            self._server.close()

    def _protocol(self) -> asyncio.Protocol:
        if len(self._aiohttp.connections) < self._most:
            return self._aiohttp()
        now = time.monotonic()
        if now - self._said >= _SAY_AGAIN_SECONDS:
            self._said = now
            self._say(f"warning: {self._most} connections are open: more are closed at once")
        return _Closed()


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def most_connections() -> int:
    """At most half of the files that this process may open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return _MOST
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(1, min(_MOST, files // 2))
