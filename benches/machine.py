"""What a benchmark ran on. Ratios differ between processors with and without the instructions for bf16."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FEATURES = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX512-BF16", "amx_tile": "AMX"}


def device() -> str:
    """As `2 x86_64 cores with AVX2, AVX-512 (AMD EPYC), no GPU used, Linux`."""
    found = features()
    instructions = f" with {', '.join(found)}" if found else ""
    cores = f"{os.cpu_count()} {platform.machine()} cores{instructions} ({name()})"
    return f"{cores}, no GPU used, {platform.system()}"


def features() -> list[str]:
    """Those that change how fast a step is."""
    flags = _of_cpuinfo("flags").split()
    return [text for flag, text in FEATURES.items() if flag in flags]


def name() -> str:
    return _of_cpuinfo("model name") or platform.processor() or platform.machine()


def _of_cpuinfo(key: str) -> str:
    """Of Linux; empty elsewhere."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next(
        (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), ""
    )
