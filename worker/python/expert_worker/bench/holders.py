"""Show who holds GPU memory, and end what dead runs left behind.

What a process caches of GPU memory is its own: no other program can empty it. What can be done from
outside is to end workers that are left over from dead runs, which frees all they hold. A run that lives
empties its own cache where the manifest sets memory_clear_every.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import psutil

from expert_worker.bench.attach import Worker, is_held, workers
from expert_worker.bench.nvml import Gpus, Holder, Reading, open_gpus
from expert_worker.bench.output import size, table
from expert_worker.terminal import write_stderr, write_stdout


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--dry-run", action="store_true", help="show, and end nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")


def run_command(given: argparse.Namespace) -> int:
    opened = open_gpus()
    holding: list[Holder] = []
    readings: list[Reading] = []
    if isinstance(opened, Gpus):
        holding, readings = opened.holders(), opened.read()
    held = gpu_processes(holding)
    freed = [] if given.dry_run else free(held)
    names: list[str] = []
    if isinstance(opened, Gpus):
        names = opened.names
        readings = opened.read() if freed else readings
        opened.close()
    reason = opened if isinstance(opened, str) else None
    if given.json:
        write_stdout(json.dumps(_document(reason, names, readings, held, freed, given.dry_run)))
    else:
        _show(reason, names, readings, held, freed, given.dry_run)
    return 0 if all(it.ended for it in freed) else 1


def _document(
    reason: str | None,
    names: list[str],
    readings: list[Reading],
    held: list[GpuProcess],
    freed: list[EndedProcess],
    dry: bool,
) -> dict[str, object]:
    return {
        "ok": all(it.ended for it in freed),
        "gpu": {"found": reason is None, "reason": reason},
        "gpus": [
            {"name": name, "used": reading.memory_used, "total": reading.memory_total}
            for name, reading in zip(names, readings, strict=True)
        ],
        "processes": [{**asdict(it), "freeable": it.freeable} for it in held],
        "dry_run": dry,
        "freed": [asdict(it) for it in freed],
    }


def _show(
    reason: str | None,
    names: list[str],
    readings: list[Reading],
    held: list[GpuProcess],
    freed: list[EndedProcess],
    dry: bool,
) -> None:
    if reason is not None:
        write_stderr(f"{reason}; only workers of expert-cli are listed")
    for name, reading in zip(names, readings, strict=True):
        used, total = reading.memory_used or 0, reading.memory_total or 0
        write_stdout(f"GPU {reading.index} {name}: {size(used)} of {size(total)} in use")
    if held:
        rows = [[it.program[:60], str(it.pid), _memory(it), it.standing] for it in held]
        write_stdout(table(["program", "process", "GPU memory", "what it is"], rows))
    else:
        write_stdout("nobody holds GPU memory, and no worker of expert-cli runs")
    left_over = [it for it in held if it.freeable]
    for it in freed:
        write_stdout(f"process {it.pid}: {it.said}")
    if dry and left_over:
        write_stdout(f"--dry-run: {len(left_over)} worker(s) of dead runs would be ended")
    elif held and not left_over:
        write_stdout(
            "nothing to free: no worker of a dead run. What live processes cache, only they can empty."
        )


def _memory(it: GpuProcess) -> str:
    parts = [f"{gpu}: {size(count) if count is not None else '?'}" for gpu, count in it.bytes_by_gpu.items()]
    return ", ".join(parts) or "-"


Standing = Literal["live run", "left over", "at work", "other program"]
_LIVELIEST: tuple[Standing, ...] = ("live run", "at work", "left over")
_GRACE = 10.0
_ADOPTERS = frozenset({"init", "systemd", "launchd", "tini", "dumb-init", "docker-init"})


@dataclass(frozen=True)
class GpuProcess:
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
class EndedProcess:
    pid: int
    ended: bool
    said: str


def gpu_processes(gpus: Iterable[Holder]) -> list[GpuProcess]:
    """Processes that hold GPU memory, and all workers of expert-cli, even those that no driver lists."""
    memory: dict[int, dict[int, int | None]] = {}
    for entry in gpus:
        memory.setdefault(entry.pid, {})[entry.gpu] = entry.bytes
    ours: dict[int, list[Worker]] = {}
    for worker in workers():
        ours.setdefault(worker.pid, []).append(worker)
    found = [_held(pid, ours.get(pid, []), memory.get(pid, {})) for pid in {*memory, *ours}]
    return sorted(found, key=lambda held: (not held.freeable, held.pid))


def _held(pid: int, ours: list[Worker], memory: dict[int, int | None]) -> GpuProcess:
    """The worker of several experts that train fused is left over only if all of their runs are dead."""
    if not ours:
        return GpuProcess(pid, _program(pid), "other program", None, memory)
    found, run = min(
        ((standing(worker), str(worker.folder)) for worker in ours), key=lambda it: _LIVELIEST.index(it[0])
    )
    return GpuProcess(pid, _program(pid), found, run, memory)


def standing(worker: Worker) -> Standing:
    """A leftover worker: its run's lock is free and its parent has ended. Stages without a run folder have no
    lock and are not touched."""
    lock = worker.folder / "lock"
    if not worker.trains or not lock.is_file():
        return "at work"
    if is_held(lock):
        return "live run"
    return "left over" if orphaned(worker.pid) else "at work"


def orphaned(pid: int) -> bool:
    """Its parent has ended, so that init or another reaper has adopted it."""
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


def free(held: Sequence[GpuProcess], grace: float = _GRACE) -> list[EndedProcess]:
    """Ends the workers of dead runs: SIGTERM, so that they can save, and SIGKILL after `grace` seconds."""
    freed = []
    for it in held:
        if it.freeable:
            freed.append(_end(it.pid, grace))
    return freed


def _end(pid: int, grace: float) -> EndedProcess:
    try:
        process = psutil.Process(pid)
        process.terminate()
        try:
            process.wait(grace)
            return EndedProcess(pid, True, "ended when asked")
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(grace)
            return EndedProcess(pid, True, "did not answer and was killed")
    except psutil.NoSuchProcess:
        return EndedProcess(pid, True, "was gone already")
    except psutil.TimeoutExpired:
        return EndedProcess(pid, False, "does not end: it may hang in the driver, which needs a restart")
    except psutil.AccessDenied:
        return EndedProcess(pid, False, "belongs to another user")
