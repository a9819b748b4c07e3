"""What the process and the device hold, and what is done where it is not enough."""

import gc
import sys
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
    """What no tensor holds any more goes back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def ran_out(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    said = str(error)
    return "out of memory" in said or "not enough memory" in said


def too_large_together(rows: int) -> Failed:
    """Where processes pass through the model in step, none can do its part in smaller pieces."""
    return Failed(
        f"{rows} rows at once do not fit into the device's memory",
        hint="Lower batch_size, which leaves the result as it is if gradient_accumulation_steps makes up for "
        "it; or lower max_seq_length, or switch gradient_checkpointing on.",
        code="out-of-memory",
    )


def halved(rows: int, step: int, what: str, events: Events) -> int:
    """How many rows to try after `rows` did not fit; `what` is done again with them."""
    if rows <= 1:
        raise Failed(
            "One row alone does not fit into the device's memory",
            hint="Lower max_seq_length, switch gradient_checkpointing on, or quantize the base.",
            code="out-of-memory",
        )
    fewer = (rows + 1) // 2
    release()
    detail = f"Out of memory with {rows} rows at once: {what} is done again with {fewer}"
    events.recovered("out_of_memory", step, detail)
    return fewer
