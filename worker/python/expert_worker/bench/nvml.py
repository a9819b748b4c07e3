"""Readings of the NVIDIA driver through NVML. A reading that is not available is None."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

VISIBLE = "CUDA_VISIBLE_DEVICES"
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}
THERMAL = frozenset({"thermal (software)", "thermal (hardware)", "hardware slowdown"})


@dataclass(frozen=True)
class Reading:
    """One GPU at one moment."""

    index: int
    utilization: float | None
    memory_utilization: float | None
    memory_used: int | None
    memory_total: int | None
    temperature: float | None
    power_watts: float | None
    power_limit_watts: float | None
    sm_clock_mhz: float | None
    sm_clock_max_mhz: float | None
    memory_clock_mhz: float | None
    slowed_by: tuple[str, ...]


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a GPU."""

    gpu: int
    pid: int
    bytes: int | None


class Gpus:
    """Every GPU that the driver shows."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = nvml.nvmlDeviceGetCount()
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self.driver: str | None = self._ask(nvml.nvmlSystemGetDriverVersion)
        self.names = [str(self._ask(nvml.nvmlDeviceGetName, handle) or "GPU") for handle in self._handles]
        self._ids = [tuple(self._ids_of(handle)) for handle in self._handles]

    def number_of(self, place: int, visible: str | None) -> int | None:
        """Of the GPU that a program with this CUDA_VISIBLE_DEVICES counts as `place`."""
        if visible is None:
            return place
        word = next(islice(visible.split(","), place, None), "").strip()
        if word.isdecimal():
            return int(word)
        # An id may be shortened. That of a slice (MIG) stands for its card.
        found = [number for number, ids in enumerate(self._ids) if any(it.startswith(word) for it in ids)]
        return found[0] if word and len(found) == 1 else None

    def read(self) -> list[Reading]:
        return [self._read(index, handle) for index, handle in enumerate(self._handles)]

    def holders(self) -> list[Holder]:
        found: dict[tuple[int, int], Holder] = {}
        for index, handle in enumerate(self._handles):
            for ask in (
                self._nvml.nvmlDeviceGetComputeRunningProcesses,
                self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                for entry in self._ask(ask, handle) or ():
                    found[index, entry.pid] = Holder(index, entry.pid, entry.usedGpuMemory)
        return list(found.values())

    def close(self) -> None:
        self._ask(self._nvml.nvmlShutdown)

    def _read(self, index: int, handle: Any) -> Reading:
        nvml = self._nvml
        busy = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        return Reading(
            index=index,
            utilization=float(busy.gpu) if busy else None,
            memory_utilization=float(busy.memory) if busy else None,
            memory_used=int(memory.used) if memory else None,
            memory_total=int(memory.total) if memory else None,
            temperature=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_watts=_thousandth(self._ask(nvml.nvmlDeviceGetPowerUsage, handle)),
            power_limit_watts=_thousandth(self._ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            sm_clock_max_mhz=self._ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            slowed_by=_reasons(self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0),
        )

    def _ids_of(self, handle: Any) -> Iterator[str]:
        nvml = self._nvml
        yield str(self._ask(nvml.nvmlDeviceGetUUID, handle) or "")
        for place in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            part = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            if part is not None:
                yield str(self._ask(nvml.nvmlDeviceGetUUID, part) or "")

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Many cards, and every MIG slice, leave some questions unanswered."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def open_gpus() -> Gpus | str:
    """The GPUs, or in words why there are none to be seen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynvml
    except ModuleNotFoundError:
        return "the package nvidia-ml-py is not installed for this Python"
    try:
        pynvml.nvmlInit()
        gpus = Gpus(pynvml)
    except pynvml.NVMLError_LibraryNotFound:
        return "there is no NVIDIA driver here (its library NVML is not found)"
    except pynvml.NVMLError as error:
        return f"the NVIDIA driver does not answer: {error}"
    return gpus if gpus.names else "the NVIDIA driver shows no GPU"


def _thousandth(value: int | None) -> float | None:
    return value / 1000 if value is not None else None


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(word for bit, word in _REASONS.items() if bits & bit)
