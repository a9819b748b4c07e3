"""How much of the processor training gets beside other programs, from what Linux counts for each thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from expert_worker.processor import available_cores

_TASKS = Path("/proc/self/task")
# Shorter windows measure the start-up of threads, and one busy moment is not worth a message.
_WINDOW = 15.0
# The share of its time in which a thread that could run has a core. Alone, it is close to 1.
_FAIR = 0.8


@dataclass(frozen=True)
class Reading:
    """Seconds since each thread began: on a core, and ready but waiting for one."""

    at: float
    threads: dict[str, tuple[float, float]]


def read_threads() -> Reading | None:
    """None where the system does not count this."""
    threads: dict[str, tuple[float, float]] = {}
    with suppress(OSError):
        for task in _TASKS.iterdir():
            with suppress(OSError, ValueError):  # A thread may end meanwhile.
                ran, waited, _ = (task / "schedstat").read_text().split()
                threads[task.name] = (int(ran) / 1e9, int(waited) / 1e9)
    return Reading(time.monotonic(), threads) if threads else None


@dataclass(frozen=True)
class Share:
    cores: float
    """Cores used, on average."""
    fraction: float
    """Of the time in which threads could run, the part in which they did."""
    seconds: float

    @classmethod
    def between(cls, before: Reading, now: Reading) -> Share:
        ran = waited = 0.0
        for thread, (its_ran, its_waited) in now.threads.items():
            ran_before, waited_before = before.threads.get(thread, (0.0, 0.0))
            ran += its_ran - ran_before
            waited += its_waited - waited_before
        seconds = max(now.at - before.at, 1e-9)
        return cls(ran / seconds, ran / (ran + waited) if ran + waited > 0 else 1.0, seconds)


class CrowdingWatch:
    """Says once when other programs take cores, and again if they return after a quiet time."""

    def __init__(self, threads: int, read: Callable[[], Reading | None] = read_threads) -> None:
        self._threads, self._read = threads, read
        # More threads than cores wait for each other.
        self._off = threads > available_cores()
        self._before: Reading | None = None
        self._steps = 0
        self._busy = False

    def message(self, steps_left: int) -> str | None:
        """Called after each step."""
        if self._off:
            return None
        self._steps += 1
        if self._before is not None and time.monotonic() - self._before.at < _WINDOW:
            return None
        now = self._read()
        before, self._before, steps, self._steps = self._before, now, self._steps, 0
        if before is None or now is None:
            return None
        share = Share.between(before, now)
        # Threads that only help, such as the one that saves, may wait while those that compute do not.
        has_its_cores = share.cores >= _FAIR * self._threads
        was_busy, self._busy = self._busy, share.fraction < _FAIR and not has_its_cores
        if was_busy or not self._busy:
            return None
        minutes = share.seconds / steps * steps_left / 60
        left = f"{minutes:.0f} min" if minutes >= 1 else "less than a minute"
        cores = "1 core" if self._threads == 1 else f"{self._threads} cores"
        return (
            f"this machine is busy: training gets {share.cores:.1f} of {cores} and waits for one "
            f"{1 - share.fraction:.0%} of the time; at this pace the remaining steps take {left}"
        )
