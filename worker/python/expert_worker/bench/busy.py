"""How busy the GPU was over a stretch of time, by the driver's word."""

from __future__ import annotations

import threading
from typing import Self

from expert_worker.bench.nvml import Gpus, open_gpus
from expert_worker.plan import Device

_INTERVAL = 0.1


class Busy:
    """Samples in a separate thread while the block runs. `mean` is None if no driver reports it."""

    def __init__(self, device: Device) -> None:
        opened = open_gpus() if device.kind == "cuda" else ""
        self._gpus = opened if isinstance(opened, Gpus) else None
        self._index = device.index
        self._values: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="busy", daemon=True)

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

    def _ask(self) -> None:
        while self._gpus is not None and not self._stop.wait(_INTERVAL):
            for reading in self._gpus.read():
                if reading.index == self._index and reading.utilization is not None:
                    self._values.append(reading.utilization)
