"""Number formats: TF32, cuDNN, and the loss scale that keeps fp16 gradients from vanishing."""

import os
import sys
from dataclasses import dataclass
from typing import Any

import torch

from expert_worker.events import Events
from expert_worker.plan import Precision

_RESERVE, _WINDOWS_RESERVE = 512 << 20, 1 << 30


def prepare(
    wanted: Precision,
    device: torch.device,
    threads: int | None,
    events: Events,
    memory_bytes: int | None = None,
) -> None:
    """Process-wide settings, each reported as read back from torch. `memory_bytes`: the device's, or less."""
    use_threads(threads, events)
    if device.type == "cuda":
        _prepare_cuda(wanted, device.index, memory_bytes, events)
    else:
        torch.use_deterministic_algorithms(True, warn_only=True)
        # It would fill every new tensor with NaN to find uninitialised reads: a debugging aid.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        events.applied("deterministic", torch.are_deterministic_algorithms_enabled())


def use_threads(threads: int | None, events: Events) -> None:
    """Those of the plan: beside other experts of a shelf, its share of the cores."""
    if threads:
        torch.set_num_threads(threads)
    events.applied("threads", torch.get_num_threads())


def _prepare_cuda(wanted: Precision, index: int, most: int | None, events: Events) -> None:
    # What names no device uses the current one: pinned memory, bitsandbytes' paged optimizers.
    torch.cuda.set_device(index)
    torch.backends.cuda.matmul.allow_tf32 = wanted.tf32
    torch.backends.cudnn.allow_tf32 = wanted.tf32
    torch.backends.cudnn.benchmark = True
    # On compute capability 9.0 and above torch would take it for packed rows, and build a graph, which takes
    # tens of milliseconds, for each new set of lengths: nearly every batch has one.
    torch.backends.cuda.enable_cudnn_sdp(False)
    on = torch.backends.cuda.matmul.allow_tf32
    events.applied("tf32", on, "TF32 enabled" if on else None)
    events.applied("cudnn_benchmark", torch.backends.cudnn.benchmark)
    events.applied("cudnn_attention", torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
    _limit_memory(index, most, events)


def _limit_memory(index: int, most: int | None, events: Events) -> None:
    """Below what is free now: a Windows driver would spill into shared memory and become slow; a refusal can
    be answered by smaller batches. The reserve is for what the driver takes outside torch's allocator.
    `most` is the plan's memory: less than the device has where --max-memory says so."""
    free, total = torch.cuda.mem_get_info(index)
    reserve = _WINDOWS_RESERVE if sys.platform == "win32" else _RESERVE
    # What this process holds already is not free, and counts toward its share.
    limit = max(free + torch.cuda.memory_reserved(index) - reserve, total // 10)
    if most is not None:
        limit = min(limit, most)
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), index)
    limit = int(total * torch.cuda.get_per_process_memory_fraction(index))
    events.applied("memory_limit_bytes", limit)
    held = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    events.applied("allocator", held, f"CUDA allocator: {held}" if held else None)


@dataclass
class LossScale:
    """Doubles after a while without overflow, halves at one. A constant scale of 1 means no scaling."""

    value: float = 1.0
    steady: int = 0
    moving: bool = False

    GROWTH_STEPS = 2000
    START = 65536.0

    @classmethod
    def of(cls, dtype: torch.dtype) -> "LossScale":
        return cls(cls.START, 0, True) if dtype == torch.float16 else cls()

    def applied(self) -> None:
        """A step went through."""
        if not self.moving:
            return
        self.steady += 1
        if self.steady >= self.GROWTH_STEPS:
            self.value, self.steady = self.value * 2, 0

    def overflowed(self) -> bool:
        """True if a smaller scale may help; False if the unscaled numbers are not finite."""
        if not self.moving or self.value <= 1:
            return False
        self.value, self.steady = self.value / 2, 0
        return True

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "steady": self.steady}

    def restore(self, saved: dict[str, Any]) -> None:
        if self.moving:
            self.value, self.steady = float(saved["value"]), int(saved["steady"])
