"""One builder at a time for what is made once and kept, and readers whose files `clean` leaves alone; the
system releases the locks of a dead process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.errors import Interrupted
from expert_worker.events import Events

_POLL = 0.1
_WAIT_BUDGET = 3600.0


@contextmanager
def builder_lock(path: Path, events: Events, waits: str) -> Iterator[None]:
    """`waits`: what another process is doing where this one has to wait, for the user."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    try:
        if not try_lock(handle):
            events.stage("wait", _WAIT_BUDGET, waits)
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


def hold_folder(path: Path) -> int | None:
    """A descriptor that shares the lock of the folder, so that `clean` leaves it there; None where the system
    opens no folders (Windows)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    share_lock(handle)
    return handle


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def share_lock(handle: int) -> None:
        pass

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def share_lock(handle: int) -> None:
        """Where another process has it, or the file system has no such lock, this process only reads too."""
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
