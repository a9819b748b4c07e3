"""One builder at a time for what is made once and kept, and readers whose files `clean` leaves alone; the
system releases the locks of a dead process."""

from __future__ import annotations

import errno
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


# Another process has the lock: flock says the first two, NFS and Windows the third.
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
# The file system has no locks, or none are left.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)


@contextmanager
def builder_lock(path: Path, events: Events, waits: str) -> Iterator[bool]:
    """Gives whether this process is the only builder: where the file system has no locks, it may not be.
    `waits`: what another process is doing where this one has to wait, for the user."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    try:
        try:
            if not _is_locked(handle):
                events.stage("wait", _WAIT_BUDGET, waits)
                _wait(handle, events)
            alone = True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            events.warning(
                "no-file-locks",
                f"The storage of {path.parent} has no file locks: two runs that need the same cache or base "
                "at once both build it",
                "Start the second run once the first one trains, or use a local disk.",
            )
            alone = False
        yield alone
    finally:
        os.close(handle)


def _wait(handle: int, events: Events) -> None:
    while not _is_locked(handle):
        if events.stop_requested:
            raise Interrupted("Stopped while waiting for another builder")
        events.tick()
        time.sleep(_POLL)


def _is_locked(handle: int) -> bool:
    """By this process; False where another one holds the lock."""
    try:
        _lock(handle)
    except OSError as error:
        if error.errno not in _HELD:
            raise
        return False
    return True


def try_lock(handle: int) -> bool:
    """False also where the file system has no locks."""
    try:
        return _is_locked(handle)
    except OSError:
        return False


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

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

    def share_lock(handle: int) -> None:
        pass

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def share_lock(handle: int) -> None:
        """Where another process has it, or the file system has no such lock, this process only reads too."""
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
