"""One look at device, process and machine; and what many looks come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from expert_worker.bench.host import Machine, Tree
from expert_worker.bench.nvml import Reading
from expert_worker.bench.statistics import Summary, summarize


@dataclass(frozen=True)
class Sample:
    """`time` in seconds since the watch began."""

    time: float
    gpus: tuple[Reading, ...]
    process: Tree | None
    machine: Machine
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
