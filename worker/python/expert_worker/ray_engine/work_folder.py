"""Where the tasks of a node lay experts out.

objects/<sha256>       inputs, for the next task too
tasks/<name>/lock      held as long as its task lives
tasks/<name>/root      an expert's files, each at the path that it has on the driver's machine
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from expert_worker.checkpoint.files import NO_FOLLOW
from expert_worker.errors import Storage, storage_error
from expert_worker.process.builder_lock import try_lock

_LOCK, _ROOT = "lock", "root"
_ELSEWHERE = "with EXPERT_HOME on this node"


def shelf_folder() -> Path:
    """Of this user alone: data may be private, and anybody may write in the system's temporary folder."""
    home = os.environ.get("EXPERT_HOME")
    try:
        return _private((Path(home) if home else _private(_temporary())) / "shelf")
    except OSError as error:
        raise storage_error(error, "make the folder of the tasks", _ELSEWHERE) from error


@contextmanager
def task_folder(shelf: Path) -> Iterator[Path]:
    """Empty, and of this task alone: two commands may train experts of one name on one node. It is removed at
    the end, or by the next task of this node where this one is killed."""
    tasks = shelf / "tasks"
    tasks.mkdir(exist_ok=True)
    _remove_abandoned(tasks)
    folder = Path(tempfile.mkdtemp(dir=tasks))
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)
    try:
        try_lock(handle)
        # After the lock: a folder that has this one is looked at by other tasks.
        root = folder / _ROOT
        root.mkdir()
        yield root
    finally:
        _remove(folder)
        os.close(handle)


def _remove_abandoned(tasks: Path) -> None:
    for root in tasks.glob(f"*/{_ROOT}"):
        with suppress(OSError):
            handle = os.open(root.with_name(_LOCK), os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600)
            try:
                if try_lock(handle):
                    _remove(root.parent)
            finally:
                os.close(handle)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder / _ROOT, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _temporary() -> Path:
    user = f"-{os.geteuid()}" if sys.platform != "win32" else ""
    return Path(tempfile.gettempdir()) / f"expert-cli{user}"


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32":
        if folder.lstat().st_uid != os.geteuid():
            raise Storage(f"{folder} belongs to another user", hint=f"Choose another folder {_ELSEWHERE}.")
        folder.chmod(0o700)  # It may be there with other rights.
    return folder
