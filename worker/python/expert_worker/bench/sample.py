"""Samples of GPUs, processor, memory and the newest step, and statistics over many samples."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import psutil

from expert_worker.bench.nvml import VISIBLE, Gpus, Reading, open_gpus

_METER_INTERVAL = 0.1


@dataclass(frozen=True)
class MachineUse:
    """`cpu_percent` of all cores together: 100 is all of them busy."""

    cpu_percent: float
    memory_available: int
    memory_total: int
    swap_used: int


@dataclass(frozen=True)
class ProcessUse:
    """Sum over a process and its descendants. `cpu_percent` counts a core as 100."""

    cpu_percent: float
    resident: int
    processes: int
    threads: int


def read_machine() -> MachineUse:
    """The percentage is of the time since the last call."""
    memory = psutil.virtual_memory()
    return MachineUse(psutil.cpu_percent(None), memory.available, memory.total, psutil.swap_memory().used)


class ProcessTree:
    """A process and its descendants, sampled over time."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[int, psutil.Process] = {}

    def variable(self, name: str) -> str | None:
        """Of the environment that it was started with."""
        try:
            environment: dict[str, str] = self._root.environ()
        except psutil.Error:
            return None
        return environment.get(name)

    def read(self) -> ProcessUse | None:
        """None once the process has ended."""
        try:
            if self._root.status() == psutil.STATUS_ZOMBIE:
                return None
            members = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return None
        cpu, resident, threads, alive = 0.0, 0, 0, 0
        for member in members:
            # cpu_percent() counts from the last call on the same object.
            process = self._known.setdefault(member.pid, member)
            try:
                with process.oneshot():
                    cpu += process.cpu_percent(None)
                    resident += process.memory_info().rss
                    threads += process.num_threads()
                alive += 1
            except psutil.Error:
                self._known.pop(member.pid, None)
        return ProcessUse(cpu, resident, alive, threads) if alive else None


@dataclass(frozen=True)
class Sample:
    """`time` in seconds since the watch began."""

    time: float
    gpus: tuple[Reading, ...]
    process: ProcessUse | None
    machine: MachineUse
    step: int | None
    tokens_per_second: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def series(samples: Sequence[Sample]) -> dict[str, list[tuple[float, float]]]:
    """Name -> (time, value), such as `gpu0.utilization` and `process.cpu_percent`."""
    found: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        for name, value in _values(sample):
            found.setdefault(name, []).append((sample.time, value))
    return found


def statistics(samples: Sequence[Sample]) -> dict[str, Summary]:
    summaries = {name: summarize([value for _, value in points]) for name, points in series(samples).items()}
    return {name: summary for name, summary in summaries.items() if summary is not None}


def _values(sample: Sample) -> Iterator[tuple[str, float]]:
    parts: list[tuple[str, Any]] = [(f"gpu{gpu.index}", gpu) for gpu in sample.gpus]
    parts += [("process", sample.process), ("machine", sample.machine)]
    for prefix, part in parts:
        for field in fields(part) if part is not None else ():
            value = getattr(part, field.name)
            if field.name != "index" and isinstance(value, int | float):
                yield f"{prefix}.{field.name}", float(value)
    if sample.tokens_per_second is not None:
        yield "training.tokens_per_second", sample.tokens_per_second


@dataclass(frozen=True)
class Summary:
    mean: float
    min: float
    max: float
    p50: float
    p95: float


def summarize(values: Sequence[float]) -> Summary | None:
    """None where nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    return Summary(
        mean=sum(ordered) / len(ordered),
        min=ordered[0],
        max=ordered[-1],
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest of the sorted values."""
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class GpuMeter:
    """Samples the utilization of one GPU, as CUDA counts here, in a thread. `mean` is None if no driver
    reports it.
    """

    def __init__(self, index: int | None) -> None:
        opened = open_gpus() if index is not None else ""
        self._gpus = opened if isinstance(opened, Gpus) else None
        self._number = (
            self._gpus.number_of(index, os.environ.get(VISIBLE)) if self._gpus and index is not None else None
        )
        self._values: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="gpu meter", daemon=True)

    @property
    def mean(self) -> float | None:
        return sum(self._values) / len(self._values) if self._values else None

    def __enter__(self) -> Self:
        if self._gpus is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._gpus is not None:
            self._thread.join()
            self._gpus.close()

    def _sample(self) -> None:
        while self._gpus is not None and not self._stop.wait(_METER_INTERVAL):
            for reading in self._gpus.read():
                if reading.index == self._number and reading.utilization is not None:
                    self._values.append(reading.utilization)
