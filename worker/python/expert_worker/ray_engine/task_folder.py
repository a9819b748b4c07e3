"""Where the tasks of a node lay experts out.

objects/<sha256>       inputs, for the next task too
tasks/<name>/root      an expert's files, each at the path that it has on the driver's machine
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expert_worker.errors import Storage, storage_error
from expert_worker.process.work_folder import create_work_folder, remove_abandoned

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
    remove_abandoned(tasks.iterdir())
    work = create_work_folder("", tasks)
    try:
        root = work.path / "root"
        root.mkdir()
        yield root
    finally:
        work.close()


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
