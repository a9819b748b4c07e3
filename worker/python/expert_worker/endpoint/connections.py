"""Which connections are open: nobody needs a token to open one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

# A connection that has sent no whole request headers for this long is closed.
IDLE_SECONDS = 30.0
_MOST = 1000
_SAY_AGAIN_SECONDS = 60.0


class Connections:
    """aiohttp's connections up to a limit. For another one, the one that has been idle longest is closed.

    A process that is out of file descriptors can take no connection at all, nor start its engine again.
    """

    def __init__(self, application: web.Application, say: Callable[[str], None]) -> None:
        # The first one is called first, and returns last.
        application.middlewares.insert(0, self._answer)
        self._say = say
        self._most = most_connections()
        self._said: dict[str, float] = {}
        # Those that are idle, in the order in which they became so.
        self._idle: dict[web.RequestHandler, _Connection] = {}
        self._answered: dict[web.RequestHandler, _Connection] = {}
        self._server: asyncio.Server | None = None

    async def take(self, runner: web.AppRunner, listener: socket.socket) -> None:
        aiohttp = runner.server
        assert aiohttp is not None, "the runner is set up"
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._heed)
        self._server = await loop.create_server(lambda: self._another(aiohttp()), sock=listener, backlog=128)

    def take_no_more(self) -> None:
        if self._server is not None:
            self._server.close()

    def _another(self, aiohttp: web.RequestHandler) -> asyncio.Protocol:
        if len(self._idle) + len(self._answered) >= self._most:
            if not self._idle:
                self._say_at_times(f"{self._most} requests are answered: more connections are closed at once")
                return _Closed()
            self._say_at_times(f"{self._most} connections are open: those idle longest are closed for others")
            self._idle.pop(next(iter(self._idle))).close()
        connection = _Connection(aiohttp, self._forget)
        self._idle[aiohttp] = connection
        return connection

    def _forget(self, aiohttp: web.RequestHandler) -> None:
        self._idle.pop(aiohttp, None)
        self._answered.pop(aiohttp, None)

    @web.middleware
    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        aiohttp = request.protocol
        if (connection := self._idle.pop(aiohttp, None)) is not None:
            self._answered[aiohttp] = connection
        try:
            return await handler(request)
        finally:
            if (connection := self._answered.pop(aiohttp, None)) is not None:
                self._idle[aiohttp] = connection

    def _heed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The loop tries again each second, and would log a traceback for each connection that waits."""
        error, message = context.get("exception"), context["message"]
        if "_start_serving" in message and self._server is not None and not self._server.is_serving():
            # Such a try, of a listener that is closed since.
            return
        if isinstance(error, OSError) and "accept" in message.lower():
            self._say_at_times(f"no connection can be taken: {error.strerror or error}")
        else:
            loop.default_exception_handler(context)

    def _say_at_times(self, warning: str) -> None:
        now = time.monotonic()
        if now - self._said.get(warning, -_SAY_AGAIN_SECONDS) >= _SAY_AGAIN_SECONDS:
            self._said[warning] = now
            self._say(f"warning: {warning}")


class _Connection(asyncio.Protocol):
    """One of aiohttp's; says when it is lost."""

    def __init__(self, aiohttp: web.RequestHandler, lost: Callable[[web.RequestHandler], None]) -> None:
        self._aiohttp, self._lost = aiohttp, lost
        self._transport: asyncio.BaseTransport | None = None
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        if isinstance(self._transport, asyncio.WriteTransport):
            # A client that does not read keeps a transport that is only closed.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._aiohttp.connection_made(transport)
        if self._is_closed:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self._aiohttp)
        self._aiohttp.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._aiohttp.data_received(data)

    def eof_received(self) -> None:
        self._aiohttp.eof_received()

    def pause_writing(self) -> None:
        self._aiohttp.pause_writing()

    def resume_writing(self) -> None:
        self._aiohttp.resume_writing()


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
