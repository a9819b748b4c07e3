"""Find the run to watch: by its folder, or the newest that trains on this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from expert_worker.errors import BadInput
from expert_worker.events.models import Started
from expert_worker.events.reader import NAME, EventFile

_LOCK = "lock"

# Whether another process holds a run's lock. The operating system releases it when the holder ends.
if sys.platform == "win32":

    def is_held(path: Path) -> bool:
        """A region that another process has locked cannot be read."""
        try:
            path.read_bytes()
        except PermissionError:
            return True
        except OSError:
            return False
        return False

else:
    import fcntl

    def is_held(path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


@dataclass(frozen=True)
class Worker:
    """A worker process and the folder of its plan, which for training is the run's."""

    pid: int
    stage: str
    folder: Path
    started: float

    @property
    def trains(self) -> bool:
        return self.stage == "train"


def workers() -> list[Worker]:
    """The worker of each run that this user may see, newest first. Experts that train fused share one."""
    found = [worker for process in psutil.process_iter() for worker in _workers(process)]
    return sorted(found, key=lambda worker: -worker.started)


def worker_of(folder: Path) -> Worker | None:
    wanted = folder.resolve()
    return next((it for it in workers() if it.trains and it.folder.resolve() == wanted), None)


def newest_run() -> Worker | None:
    """The training that was started last and still holds its folder."""
    return next((it for it in workers() if it.trains and is_held(it.folder / _LOCK)), None)


def record_of(folder: Path) -> Path:
    path = folder / NAME
    if path.is_file():
        return path
    what = "holds no events.jsonl" if folder.is_dir() else "is not a folder"
    raise BadInput(
        f"{folder} {what}, so it is not a run that can be measured",
        hint="Name the folder that training writes to; `expert-cli runs` lists them.",
        code="no-run",
    )


def _workers(process: psutil.Process) -> list[Worker]:
    try:
        line = process.cmdline()
        started = process.create_time()
    except psutil.Error:
        return []
    if _stage_and_options(line) == ("warm", []):
        run = _run_of_fork(process.pid)
        return [] if run is None else [Worker(process.pid, "train", run, started)]
    return parse_command(process.pid, line, started)


def parse_command(pid: int, line: list[str], started: float) -> list[Worker]:
    """Of `python -m expert_worker STAGE --plan FOLDER/plan.json`, with one more `--plan` for each expert that
    trains fused."""
    stage, options = _stage_and_options(line)
    plans = [Path(value) for name, value in pairwise(options) if name == "--plan"]
    return [Worker(pid, stage, plan.parent, started) for plan in plans]


def _stage_and_options(line: list[str]) -> tuple[str, list[str]]:
    for at in range(1, len(line) - 2):
        if line[at : at + 2] == ["-m", "expert_worker"]:
            return line[at + 2], line[at + 3 :]
    return "", []


def _run_of_fork(pid: int) -> Path | None:
    """A worker that was forked from a warm parent has the parent's command line. It shares the lock of its
    run, whose newest attempt names it: not the parent, and not what the worker forks."""
    try:
        shared = [handle.readlink() for handle in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return None
    # The folder is locked, or the file in it where the file system locks no folders.
    folders = {path.parent if path.name == _LOCK else path for path in shared}
    return next((folder for folder in folders if _begun_by(folder) == pid), None)


def _begun_by(run: Path) -> int | None:
    """The process that the newest attempt of the run began in."""
    begun = [it.body.pid for it in EventFile(run / NAME).read() if isinstance(it.body, Started)]
    return begun[-1] if begun else None
