"""Which files of a run's folder go to a store, and how they come back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from expert_worker.adapter import WEIGHTS
from expert_worker.checkpoint import files
from expert_worker.checkpoint.record import FOLDER, DamagedError
from expert_worker.checkpoint.verify import verify
from expert_worker.run_scores import remove_replaced_scores

INCOMING = ".incoming"
BESIDE = ".beside"
FINISHED = "run.json"
_FINAL = "final"
_CHECKPOINT = re.compile(FOLDER)
# What `is_own` of cli/src/run/own.rs says is a run's, except what passes. A folder that the newer run does
# not have is deleted.
_FOLDERS = re.compile(rf"{FOLDER}(\.damaged|\.superseded)?|final|previous|replaced|tensorboard")
_FILES = re.compile(r"(run|evaluation|plan)\.json|(answers|events)\.jsonl|report\.html|worker(-\d+)?\.log")
# `--profile` and the tracker wandb write beside the run: their files come back, and what is there stays.
_ADDED = ("profile", "wandb")


def files_of(run: Path) -> dict[str, Path]:
    """What a snapshot holds: checkpoints that verify, then the rest, so that records are never older.
    Everything else in the folder may be the user's and stays where it is."""
    found: dict[str, Path] = {}
    for top in sorted(run.iterdir(), key=lambda path: not path.name.startswith("checkpoint-")):
        if top.is_symlink() or not _travels(top):
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
    (run / FINISHED).unlink(missing_ok=True)
    # Snapshots of older versions also hold copies of the user's folders.
    coming = sorted(filter(_travels, incoming.iterdir()), key=lambda path: path.name == FINISHED)
    names = {path.name for path in coming}
    if (weights := incoming / _FINAL / WEIGHTS).is_file():
        remove_replaced_scores(run / _FINAL, weights)
    for path in run.iterdir():
        if path.is_dir() and _FOLDERS.fullmatch(path.name) and path.name not in names:
            files.discard_folder(path)
    for path in coming:
        place = run / path.name
        if path.name in _ADDED and place.is_dir():
            shutil.copytree(path, place, dirs_exist_ok=True)
            continue
        if place.is_dir() and not place.is_symlink():
            files.discard_folder(place)
        path.replace(place)
    files.sync_folder(run)
    shutil.rmtree(incoming)


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


def _travels(top: Path) -> bool:
    if top.is_dir():
        return top.name in _ADDED or _FOLDERS.fullmatch(top.name) is not None
    return _FILES.fullmatch(top.name) is not None


def _is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except DamagedError:
        return False
    return True
