"""Which files of a run's folder go to a store, and how they come back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from expert_worker.checkpoint import files
from expert_worker.checkpoint.record import DamagedError
from expert_worker.checkpoint.verify import verify

INCOMING = ".incoming"
BESIDE = ".beside"
_FINISHED = "run.json"
_CHECKPOINT = re.compile(r"checkpoint-\d+")
# Folders that belong to a run: one that the newer run does not have is deleted. The rest may be the user's.
_FOLDERS = re.compile(r"checkpoint-\d+(\.damaged|\.superseded)?|final|previous|replaced|tensorboard")


def files_of(run: Path) -> dict[str, Path]:
    """What a snapshot holds: checkpoints that verify, then the rest, so that records are never older."""
    found: dict[str, Path] = {}
    for top in sorted(run.iterdir(), key=lambda path: not path.name.startswith("checkpoint-")):
        if _is_passing(top.name) or top.is_symlink():
            continue
        if top.is_file():
            found[top.name] = top
        elif not _CHECKPOINT.fullmatch(top.name) or _is_whole(top):
            found |= {path.relative_to(run).as_posix(): path for path in top.rglob("*") if path.is_file()}
    return found


def install(incoming: Path, run: Path) -> None:
    """Puts a whole run in the place of the one that is there. `run.json` says that a run is finished: it goes
    first and comes last, so that a folder that is cut off in between never looks finished."""
    files.sync_tree(incoming)
    (run / _FINISHED).unlink(missing_ok=True)
    coming = sorted(incoming.iterdir(), key=lambda path: path.name == _FINISHED)
    names = {path.name for path in coming}
    for path in run.iterdir():
        if path.is_dir() and _FOLDERS.fullmatch(path.name) and path.name not in names:
            files.discard_folder(path)
    for path in coming:
        place = run / path.name
        if place.is_dir() and not place.is_symlink():
            files.discard_folder(place)
        path.replace(place)
    files.sync_folder(run)
    incoming.rmdir()


def put_beside(incoming: Path, expert_dir: Path) -> None:
    """expert.lock, in one rename."""
    if not incoming.is_dir():
        return
    for path in incoming.iterdir():
        files.replace(expert_dir / path.name, path.read_bytes())
    shutil.rmtree(incoming)


def checkpoint_of(name: str) -> str | None:
    """The checkpoint that a file belongs to."""
    top = name.partition("/")[0]
    return top if _CHECKPOINT.fullmatch(top) else None


def _is_passing(name: str) -> bool:
    return name in ("lock", "lease") or name.startswith(".") or name.endswith((".partial", ".trash"))


def _is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except DamagedError:
        return False
    return True
