"""One process from its start to its end: time on the wall, CPU seconds, the most anonymous memory it held."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EVERY = 0.02


@dataclass(frozen=True)
class Measured:
    wall: float
    cpu: float
    # Memory that is not backed by a file; null where the system does not report it.
    anonymous_mb: float | None
    # The JSON of the last line that it printed.
    told: dict[str, Any]


def measure(arguments: Sequence[str], *, on: int, paths: Sequence[str]) -> Measured:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as talk:
        started, before = time.monotonic(), _children_cpu()
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=_environment(paths),
            stdout=out,
            stderr=talk,
        )
        _keep_to(process.pid, on)
        peak = _watch(process)
        wall, cpu = time.monotonic() - started, _children_cpu() - before
        out.seek(0)
        talk.seek(0)
        if process.returncode:
            raise SystemExit(f"{arguments[0]} failed:\n{talk.read().decode()[-2000:]}")
        told = json.loads(out.read().decode().splitlines()[-1])
    return Measured(wall, cpu, peak, told)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: "subprocess.Popen[bytes]") -> float | None:
    peak: float | None = None
    while True:
        try:
            process.wait(_EVERY)
        except subprocess.TimeoutExpired:
            now = _anonymous(process.pid)
            peak = now if peak is None else max(peak, now or 0.0)
            continue
        return peak


def _anonymous(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon")), None)


def cores() -> int:
    """That this process, and what it starts, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _keep_to(pid: int, count: int) -> None:
    """Before it has got far enough to start a thread."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, sorted(os.sched_getaffinity(0))[:count])


def _environment(paths: Sequence[str]) -> dict[str, str]:
    """One thread where a library would take more; modules kept compiled, as installed ones are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
