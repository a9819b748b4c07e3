"""Every two seconds a sign of life with the main loop's tick count, so that a stuck loop shows, and a warning
that names storage which does not answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from expert_worker.events import Events
from expert_worker.storage import unanswered

SECONDS = 2.0
# Longer than a disk that is busy with other files needs.
_STORAGE_SECONDS = 20.0


@contextmanager
def heartbeat(events: Events, seconds: float = SECONDS) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(seconds):
            for path in unanswered(_STORAGE_SECONDS):
                events.storage_waits(path, _STORAGE_SECONDS)
            events.heartbeat()

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
