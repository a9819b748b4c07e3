"""Processor and memory of a process with its children, and of the whole machine, by psutil."""

from __future__ import annotations

from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Machine:
    """`cpu_percent` of all cores together: 100 is all of them busy."""

    cpu_percent: float
    memory_available: int
    memory_total: int
    swap_used: int


@dataclass(frozen=True)
class Tree:
    """A process and its descendants. `cpu_percent` counts a core as 100."""

    cpu_percent: float
    resident: int
    processes: int
    threads: int


def read_machine() -> Machine:
    """The percentage is of the time since the last call."""
    memory = psutil.virtual_memory()
    return Machine(psutil.cpu_percent(None), memory.available, memory.total, psutil.swap_memory().used)


class Watched:
    """One process tree over time."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[int, psutil.Process] = {}

    def read(self) -> Tree | None:
        """None once the process has ended."""
        try:
            if self._root.status() == psutil.STATUS_ZOMBIE:
                return None
            members = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return None
        cpu, resident, threads, alive = 0.0, 0, 0, 0
        for member in members:
            # The same object is asked each time, since it remembers when it was asked last.
            process = self._known.setdefault(member.pid, member)
            try:
                with process.oneshot():
                    cpu += process.cpu_percent(None)
                    resident += process.memory_info().rss
                    threads += process.num_threads()
                alive += 1
            except psutil.Error:
                self._known.pop(member.pid, None)
        return Tree(cpu, resident, alive, threads) if alive else None
