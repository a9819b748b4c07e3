"""Limits of a scoring child. It sets the system's limits itself; its parent enforces time and memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    start_seconds: float = 120.0
    answer_seconds: float = 10.0
    resident_bytes: int = 1536 * MEBIBYTE
    file_bytes: int = 8 * MEBIBYTE
    open_files: int = 64


def apply_limits(limits: Limits) -> None:
    """Holds this process to the limits that the system enforces. Windows has none of them."""
    if sys.platform == "win32":
        return
    import resource

    for kind, wanted in (
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        ceiling = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (ceiling, ceiling))
