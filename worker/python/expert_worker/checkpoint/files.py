"""The one place of the worker that writes files which must survive a crash or a power cut.

Nothing is visible under its final name before it is whole and on the disk: temp -> fsync -> rename -> fsync
of the parent. Everything ends in a call of `os`, so that tests can stop the process between any two steps.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from expert_worker import lease
from expert_worker.storage import waits_for

Chunk = bytes | memoryview
PARTIAL = ".partial"
TRASH = ".trash"

# A downloaded folder may hold symbolic links that lead to the user's own files.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_FOLLOW | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Written:
    sha256: str
    bytes: int


def write(path: Path, chunks: Iterable[Chunk]) -> Written:
    """Write a file and bring it to the disk. Not atomic: for files of a folder that is published later."""
    digest = hashlib.sha256()
    size = 0
    handle = os.open(path, _WRITE_FLAGS, 0o666)
    try:
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            digest.update(view)
            size += len(view)
            _write_all(handle, view, path)
        _sync(handle, path)
    finally:
        os.close(handle)
    return Written(digest.hexdigest(), size)


def _write_all(handle: int, view: memoryview, path: Path) -> None:
    while view:
        with waits_for(path):
            written = os.write(handle, view)
        view = view[written:]


def _sync(handle: int, path: Path) -> None:
    with waits_for(path):
        os.fsync(handle)


def _rename(path: Path, target: Path) -> None:
    with waits_for(target):
        path.replace(target)


def _rename_folder(folder: Path, target: Path) -> None:
    with waits_for(target):
        folder.rename(target)


def replace(path: Path, content: Chunk) -> Written:
    """Put a whole file in the place of whatever stood there."""
    temp = lease.beside(path, PARTIAL)
    with lease.held():
        try:
            written = write(temp, [content])
            _rename(temp, path)
        except OSError:
            temp.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)
    return written


def replace_shared(path: Path, content: bytes) -> None:
    """`replace` for a file that several processes may write at once: each has a temporary file to itself."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    temp = Path(name)
    try:
        try:
            _write_all(handle, memoryview(content), path)
            _sync(handle, path)
        finally:
            os.close(handle)
        _rename(temp, path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def replace_json(path: Path, document: Any) -> Written:
    return replace(path, json_bytes(document))


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def json_bytes(document: Any) -> bytes:
    """The same document gives the same bytes, whatever order its keys were inserted in."""
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def build_folder(target: Path, fill: Callable[[Path], None], *, alone: bool = True) -> None:
    """Fill a temp folder beside `target`, then publish it under its name; an older one gives way. Where other
    processes may build the same (not `alone`), the temp name is this one's, and the first to publish wins."""
    temp = lease.beside(target, PARTIAL if alone else f".{uuid4().hex[:8]}{PARTIAL}")
    before = None if alone else _inode(target)
    remove_tree(temp)
    with lease.held(), waits_for(temp):
        temp.mkdir()
    try:
        with lease.held():
            fill(temp)
            if alone or _inode(target) == before:
                publish_folder(temp, target)
            else:
                remove_tree(temp)
    except BaseException:
        # Best effort only: on a failing disk the first error is the one to report.
        shutil.rmtree(temp, ignore_errors=True)
        raise


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def build_new_folder(target: Path, work: Path, fill: Callable[[Path], None]) -> None:
    """`build_folder` for a place that a user names: nothing beside `target` is touched. `work` is a folder
    beside it that no other build uses. `target` is absent or an empty folder; anything else is refused."""
    # A folder in the folder, which has the permissions of any new folder.
    temp = work / target.name
    temp.mkdir()
    fill(temp)
    _sync_folders(temp)
    if sys.platform == "win32" and target.is_dir():
        # There a rename replaces no folder, not even an empty one.
        target.rmdir()
    _rename_folder(temp, target)
    sync_folder(target.parent)


def sync_tree(folder: Path) -> None:
    """For folders that a library has filled: its files are brought to the disk after the fact."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            _sync_file(path)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        _sync(handle, path)
    finally:
        os.close(handle)


def publish(temp: Path, target: Path) -> None:
    """The same for one file, which then takes its name."""
    _sync_file(temp)
    _rename(temp, target)
    sync_folder(target.parent)


def publish_folder(temp: Path, target: Path) -> None:
    if lease.folder_for(target) is None:
        lease.confirm()
    _sync_folders(temp)
    old = lease.beside(target, TRASH)
    if target.exists():
        remove_tree(old)
        _rename_folder(target, old)
    _rename_folder(temp, target)
    sync_folder(target.parent)
    remove_tree(old)


def _sync_folders(top: Path) -> None:
    for folder in [*(f for f in sorted(top.rglob("*"), reverse=True) if f.is_dir()), top]:
        sync_folder(folder)


def discard_folder(folder: Path) -> None:
    """Delete a folder such that a crash leaves either all of it or nothing under its name."""
    trash = lease.beside(folder, TRASH)
    remove_tree(trash)
    with lease.held():
        _rename_folder(folder, trash)
    sync_folder(folder.parent)
    remove_tree(trash)


def move_folder(folder: Path, target: Path) -> None:
    """Another name in the same folder; a folder that has the name already is deleted."""
    if target.exists():
        discard_folder(target)
    with lease.held():
        taken = lease.beside(folder, TRASH)
        if lease.folder_for(folder) is not None:
            remove_tree(taken)
            _rename_folder(folder, taken)
            folder = taken
        _rename_folder(folder, target)
    sync_folder(target.parent)


def remove_tree(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def remove_leftovers(parent: Path, own: re.Pattern[str]) -> list[str]:
    """Clear what a killed attempt left half-made of the names that match `own` as a whole; returns what it
    removed. The folder may be anyone's."""
    if not parent.is_dir():
        return []
    gone = []
    lease.confirm()
    for path in sorted(parent.iterdir()):
        bare = path.name.removesuffix(PARTIAL).removesuffix(TRASH)
        if bare != path.name and own.fullmatch(bare):
            remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            gone.append(path.name)
    return gone


def sync_folder(folder: Path) -> None:
    """Make renames inside the folder durable. Windows has no such call and journals renames by itself."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _sync(handle, folder)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
