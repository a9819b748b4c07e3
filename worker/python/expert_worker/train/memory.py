"""Memory of process and device, and the handling of out-of-memory errors."""

import gc
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from expert_worker.errors import Failed
from expert_worker.events import Events


@dataclass(frozen=True)
class Memory:
    allocated: int
    reserved: int


def now(device: torch.device) -> Memory:
    if device.type == "cuda":
        return Memory(torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device))
    import psutil

    return Memory(psutil.Process().memory_info().rss, peak(device))


def peak(device: torch.device) -> int:
    """Peak resident size of the process on a CPU, peak reserved memory on CUDA."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    if sys.platform == "linux":
        return _high_water()
    import resource

    # In bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _high_water() -> int:
    """Of this program only: getrusage includes the peak of the parent process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Utilization:
    """Percent of the GPU's time in use, by NVML.

    It is asked every few seconds, as one call takes milliseconds, and no more once it has refused: MIG
    partitions, vGPUs, WSL2 and containers without NVML do."""

    SECONDS = 5.0

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._available = device.type == "cuda"
        self._value: float | None = None
        self._asked = -math.inf

    def now(self) -> float | None:
        if not self._available or time.monotonic() - self._asked < self.SECONDS:
            return self._value
        self._asked = time.monotonic()
        try:
            self._value = float(torch.cuda.utilization(self._device))
        except Exception:  # NVML's errors have a base class in a package that may be absent.
            self._available, self._value = False, None
        return self._value


@contextmanager
def reserved(size: int, device: torch.device) -> Iterator[None]:
    """Holds `size` bytes of the device's memory that something else will need later."""
    held = torch.empty(size, dtype=torch.uint8, device=device)
    try:
        yield
    finally:
        del held


def release() -> None:
    """Returns cached memory to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Freed(torch.OutOfMemoryError):
    """Memory ran out, and was freed since: the step is to be repeated with as many rows."""


class RowTooLarge(Failed):
    """Memory ran out with a single row."""

    default_code = "out-of-memory"


_SMALLER_ROW = "Lower max_seq_length, switch gradient_checkpointing on, or quantize the base."


def halve_after_oom(
    rows: int, step: int, what: str, events: Events, *, reports: bool = True, hint: str = _SMALLER_ROW
) -> int:
    """The number of rows to try after `rows` did not fit; `what` is repeated with them. Of processes that
    agreed on it one reports."""
    if rows <= 1:
        raise RowTooLarge("One row alone does not fit into the device's memory", hint=hint)
    fewer = (rows + 1) // 2
    release()
    # At a step it is shown behind "out of memory".
    detail = f"{rows} rows at once did not fit into memory: {what} is repeated with {fewer}"
    if reports:
        events.recovered("out_of_memory", step, detail)
    return fewer
