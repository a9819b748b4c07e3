"""What computes a run. Two processors round differently: the same bytes come only from the same model."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from expert_worker.plan import Device


def name_of_processor(device: Device) -> str:
    """As the GPU's driver calls it, or the CPU with the instructions that torch uses."""
    if device.kind != "cpu":
        return device.name
    import torch

    return f"{cpu_name()} ({torch.backends.cpu.get_cpu_capability()})"


def available_cores() -> int:
    """Those that this process may use: a container or `taskset` may allow fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    return _of_cpuinfo("model name") or platform.processor() or platform.machine()


def is_intel() -> bool:
    return _of_cpuinfo("vendor_id") == "GenuineIntel" or "GenuineIntel" in platform.processor()


def _of_cpuinfo(key: str) -> str:
    """Of Linux; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key)
    return next(named, "")
