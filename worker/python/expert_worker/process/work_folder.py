"""A folder for one process alone, which is removed after the process however it ends.

The process locks a file in it as long as it lives. A killed one cannot remove its folder: a later process
does, if nobody holds the lock.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.process.builder_lock import try_lock

LOCK = "owner.lock"
_ATTEMPTS = 5


@dataclass
class WorkFolder:
    path: Path
    _handle: int | None

    def close(self) -> None:
        """May be called twice: where a start fails, and at the end of the work."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with contextlib.suppress(OSError):
                _remove(self.path, handle)


def create_work_folder(prefix: str, parent: Path | None = None) -> WorkFolder:
    """In the temporary folder, where no other is given."""
    for attempt in range(_ATTEMPTS):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        handle = _open(path, os.O_CREAT)
        # Another process that looked before the lock was taken has removed the folder. On a file system
        # without locks no process removes another's folder.
        if handle is not None and (_is_locked(path, handle) or attempt == _ATTEMPTS - 1):
            return WorkFolder(path, handle)
        if handle is not None:
            os.close(handle)
        shutil.rmtree(path, ignore_errors=True)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def remove_abandoned(folders: Iterable[Path]) -> list[Path]:
    """Removes those that this user's dead processes made; returns what it removed."""
    gone = []
    for path in folders:
        with contextlib.suppress(OSError):
            if not _is_own(path):
                continue
            handle = _open(path)
            if handle is None:
                continue
            if try_lock(handle):
                _remove(path, handle)
                gone.append(path)
            else:
                os.close(handle)
    return gone


def _open(folder: Path, flags: int = 0) -> int | None:
    try:
        return os.open(folder / LOCK, os.O_RDWR | NO_FOLLOW | flags, 0o600)
    except FileNotFoundError:
        return None


def _is_locked(folder: Path, handle: int) -> bool:
    if not try_lock(handle):
        return False
    try:
        return os.path.samestat((folder / LOCK).stat(follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def _is_own(path: Path) -> bool:
    """The temporary folder is everyone's: a link or another user's folder stays."""
    if path.is_symlink() or not path.is_dir():
        return False
    return sys.platform == "win32" or path.stat().st_uid == os.getuid()


def _remove(folder: Path, handle: int) -> None:
    """The lock last: what a kill leaves of this is removed by the next process."""
    try:
        for inside in folder.iterdir():
            if inside.name != LOCK:
                shutil.rmtree(inside) if inside.is_dir() and not inside.is_symlink() else inside.unlink()
        if sys.platform != "win32":
            shutil.rmtree(folder)
    finally:
        os.close(handle)
    if sys.platform == "win32":  # It deletes no open file.
        shutil.rmtree(folder)
