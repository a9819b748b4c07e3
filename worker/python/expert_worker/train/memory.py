"""What the process and the device hold, and whether the largest batch fits before the first step."""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch


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
    """Of this program alone: what getrusage tells begins with the peak of the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def utilization(device: torch.device) -> float | None:
    """Percent, where the driver tells."""
    if device.type != "cuda":
        return None
    try:
        return float(torch.cuda.utilization(device))
    except (RuntimeError, ModuleNotFoundError):
        return None


def release() -> None:
    """For `memory_clear_every`."""
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
