"""The time of a step: copying to the device, launching on the host, computing on the device."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from expert_worker.train.fast.batch import Flat


@dataclass(frozen=True)
class Split:
    """Seconds. On a CPU host and device are one, so that launching and computing are the same time."""

    transfer: float = 0.0
    host_launch: float = 0.0
    device_compute: float = 0.0


class Stopwatch:
    """Measures one step. On CUDA it uses device events, without synchronising."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._transfer = self._launch = 0.0
        self._first = self._mark()
        self._last = self._first
        self._began = time.perf_counter()

    def moved(self, batch: Flat) -> Flat:
        """Moves the batch to the device and measures the time."""
        began = time.perf_counter()
        there = batch.to(self._device)
        self._transfer += time.perf_counter() - began
        return there

    def launched(self) -> None:
        """The host has launched everything; the device may still be computing."""
        self._launch = time.perf_counter() - self._began - self._transfer
        self._last = self._mark()

    def split(self) -> Split:
        """Call after the device has finished, such as after the loss was read."""
        if self._first is None:
            return Split(self._transfer, self._launch, self._launch)
        computed = self._first.elapsed_time(self._last) / 1e3
        return Split(self._transfer, self._launch, computed)

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event
