"""The temporary folder of rows that are tokenized for one run.

Its worker holds a lock in it for as long as it lives. A killed worker cannot remove its folder: the next run
does, if nobody holds the lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.pretokenize.lock import try_lock

_PREFIX = "expert-rows-"
_LOCK = "owner.lock"


@dataclass
class RowsFolder:
    path: Path
    _handle: int | None

    def close(self) -> None:
        """May be called twice: where a start fails, and at the end of the run."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with contextlib.suppress(OSError):
                _remove(self.path, handle)


def create() -> RowsFolder:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        handle = _open(path, os.O_CREAT)
        # Another run that looked before the lock was taken has removed the folder.
        if handle is not None and try_lock(handle) and _is_open_at(path / _LOCK, handle):
            return RowsFolder(path, handle)
        if handle is not None:
            os.close(handle)


def remove_abandoned() -> list[Path]:
    """Removes the folders of this user's runs that are dead; returns what it removed."""
    gone = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
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
        return os.open(folder / _LOCK, os.O_RDWR | NO_FOLLOW | flags, 0o600)
    except FileNotFoundError:
        return None


def _is_open_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False


def _is_own(path: Path) -> bool:
    """The temporary folder is everyone's: a link or another user's folder stays."""
    if path.is_symlink() or not path.is_dir():
        return False
    return sys.platform == "win32" or path.stat().st_uid == os.getuid()


def _remove(folder: Path, handle: int) -> None:
    """Rows first, the lock last: what a kill leaves of this is removed by the next run."""
    try:
        for inside in folder.iterdir():
            if inside.name != _LOCK:
                shutil.rmtree(inside) if inside.is_dir() and not inside.is_symlink() else inside.unlink()
        if sys.platform != "win32":
            shutil.rmtree(folder)
    finally:
        os.close(handle)
    if sys.platform == "win32":  # It deletes no open file.
        shutil.rmtree(folder)
