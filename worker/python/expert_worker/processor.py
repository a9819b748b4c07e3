"""What computes a run. Two processors round differently: the same bytes come only from the same model."""

from __future__ import annotations

import platform
from pathlib import Path

from expert_worker.plan import Device


def name_of_processor(device: Device) -> str:
    """As the GPU's driver calls it, or the CPU with the instructions that torch uses."""
    if device.kind != "cpu":
        return device.name
    import torch

    return f"{_cpu()} ({torch.backends.cpu.get_cpu_capability()})"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
