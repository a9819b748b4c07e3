"""The address that the server listens on, taken before anything is loaded."""

from __future__ import annotations

import errno
import os
import socket

from expert_worker.errors import Failed

# Errors that no other port ends.
_OF_THE_HOST = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Until one of them listens, Linux lets several bind a port. Clients wait until the engine is ready.
        listener.listen()
    except OSError as error:
        raise Failed(
            f"Cannot listen on {host} port {port}: {error.strerror or error}", hint=_hint(error), code="port"
        ) from None
    return listener


def _hint(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno in _OF_THE_HOST:
        return "Name an address of this machine with --host, or leave it out for 127.0.0.1."
    if error.errno == errno.EACCES:
        return "Choose a port of 1024 or above with --port; 0 takes a free one."
    return "Choose another with --port; 0 takes a free one."
