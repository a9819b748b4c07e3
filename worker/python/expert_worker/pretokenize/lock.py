"""One builder at a time for one cache; the system releases the lock of a process that dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.errors import Interrupted
from expert_worker.events import Events

_POLL = 0.1
_WAIT_BUDGET = 3600.0


@contextmanager
def builder_lock(path: Path, events: Events) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    try:
        if not try_lock(handle):
            events.stage("wait", _WAIT_BUDGET, "another process is building this token cache")
            _wait(handle, events)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, events: Events) -> None:
    while not try_lock(handle):
        if events.stop_requested:
            raise Interrupted("Stopped while waiting for another builder")
        events.tick()
        time.sleep(_POLL)


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
