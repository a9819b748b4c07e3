"""A limit of time that nothing can outlast."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from expert_worker.errors import Failed
from expert_worker.events import Events


@contextmanager
def limited(seconds: float, events: Events) -> Iterator[None]:
    """Ends the process after `seconds`: a compiler or a kernel cannot be interrupted from within."""
    done = threading.Event()

    def expire() -> None:
        if not done.wait(seconds):
            events.failed(Failed(f"not done within {seconds:.0f} seconds", code="bench-limit"))
            os._exit(Failed.exit)

    thread = threading.Thread(target=expire, name="limit", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
