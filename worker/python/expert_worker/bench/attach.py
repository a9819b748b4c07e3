"""Find the run to watch: by its folder, or the newest that trains on this machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from expert_worker.errors import BadInput
from expert_worker.events.reader import NAME

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
    """Every worker that this user may see, newest first."""
    found = [worker for process in psutil.process_iter() if (worker := _worker(process)) is not None]
    return sorted(found, key=lambda worker: -worker.started)


def worker_of(folder: Path) -> Worker | None:
    wanted = folder.resolve()
    return next((it for it in workers() if it.trains and it.folder.resolve() == wanted), None)


def newest_run() -> Worker | None:
    """The training that was started last and still holds its folder."""
    return next((it for it in workers() if it.trains and is_held(it.folder / "lock")), None)


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


def _worker(process: psutil.Process) -> Worker | None:
    """Identified by its command line: `python -m expert_worker STAGE --plan FOLDER/plan.json`."""
    try:
        line = process.cmdline()
        started = process.create_time()
    except psutil.Error:
        return None
    return parse_command(process.pid, line, started)


def parse_command(pid: int, line: list[str], started: float) -> Worker | None:
    for at in range(1, len(line) - 1):
        if line[at : at + 2] == ["-m", "expert_worker"]:
            rest = line[at + 2 :]
            if len(rest) >= 3 and rest[1] == "--plan":
                return Worker(pid, rest[0], Path(rest[2]).parent, started)
    return None
