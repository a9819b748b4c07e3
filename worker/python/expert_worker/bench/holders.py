"""Who holds GPU memory, which of it belongs to workers of ours, and which of those are left over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import psutil

from expert_worker.bench.attach import Worker, workers
from expert_worker.bench.locks import is_held
from expert_worker.bench.nvml import Holder

Standing = Literal["live run", "left over", "at work", "other program"]
_GRACE = 10.0
_ADOPTERS = frozenset({"init", "systemd", "launchd", "tini", "dumb-init", "docker-init"})


@dataclass(frozen=True)
class Held:
    """One process, with what it holds on each GPU."""

    pid: int
    program: str
    standing: Standing
    run: str | None
    bytes_by_gpu: dict[int, int | None]

    @property
    def freeable(self) -> bool:
        return self.standing == "left over"


@dataclass(frozen=True)
class Freed:
    pid: int
    ended: bool
    said: str


def look(gpus: Iterable[Holder]) -> list[Held]:
    """Every holder of GPU memory, and every worker of ours although the driver may not list it."""
    memory: dict[int, dict[int, int | None]] = {}
    for entry in gpus:
        memory.setdefault(entry.pid, {})[entry.gpu] = entry.bytes
    ours = {worker.pid: worker for worker in workers()}
    found = [_held(pid, ours.get(pid), memory.get(pid, {})) for pid in {*memory, *ours}]
    return sorted(found, key=lambda held: (not held.freeable, held.pid))


def _held(pid: int, worker: Worker | None, memory: dict[int, int | None]) -> Held:
    run = str(worker.folder) if worker else None
    return Held(pid, _program(pid), standing(worker) if worker else "other program", run, memory)


def standing(worker: Worker) -> Standing:
    """A leftover worker: its run's lock is free and its starter is gone. Stages without a run folder have no
    lock and are not touched."""
    lock = worker.folder / "lock"
    if not worker.trains or not lock.is_file():
        return "at work"
    if is_held(lock):
        return "live run"
    return "left over" if orphaned(worker.pid) else "at work"


def orphaned(pid: int) -> bool:
    """Its starter has ended, so that the system's first process has taken it over."""
    try:
        parent = psutil.Process(pid).parent()
        return parent is None or parent.pid == 1 or parent.name() in _ADOPTERS
    except psutil.Error:
        return False


def _program(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        line = process.cmdline()
        return " ".join(line)[:120] if line else process.name()
    except psutil.Error:
        return "(not visible to this user)"


def free(held: Sequence[Held], grace: float = _GRACE) -> list[Freed]:
    """Ends the workers of dead runs: asked first, so that they may save; made to after `grace` seconds."""
    freed = []
    for it in held:
        if it.freeable:
            freed.append(_end(it.pid, grace))
    return freed


def _end(pid: int, grace: float) -> Freed:
    try:
        process = psutil.Process(pid)
        process.terminate()
        try:
            process.wait(grace)
            return Freed(pid, True, "ended when asked")
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(grace)
            return Freed(pid, True, "did not answer and was killed")
    except psutil.NoSuchProcess:
        return Freed(pid, True, "was gone already")
    except psutil.TimeoutExpired:
        return Freed(pid, False, "does not end: it may hang in the driver, which needs a restart")
    except psutil.AccessDenied:
        return Freed(pid, False, "belongs to another user")
