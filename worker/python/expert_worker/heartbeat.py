"""Every two seconds a sign of life with the main loop's tick count, so that a stuck loop shows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from expert_worker.events import Events

SECONDS = 2.0


@contextmanager
def heartbeat(events: Events, seconds: float = SECONDS) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(seconds):
            events.heartbeat()

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
