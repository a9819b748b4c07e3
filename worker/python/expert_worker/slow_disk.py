"""Warns where a base or a token cache is on a disk so slow that reading it takes minutes."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from expert_worker.events import Events

_SAMPLE = 16 << 20
# Bytes per second. A hard disk reads 100 to 200 MB/s, a network drive over Wi-Fi 5 to 50.
_SLOW = 80e6
_LONG = 60.0


def warn_if_slow(what: str, folder: Path, hint: str, events: Events) -> None:
    """Reads a few MB of the largest file; nothing where all of it is read within a minute at any speed."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if size / _SLOW < _LONG:
        return
    speed = _bytes_per_second(max(files, key=lambda path: path.stat().st_size))
    if speed is None or speed >= _SLOW:
        return
    minutes = max(1, round(size / speed / 60))
    events.warning(
        "slow-disk",
        f"The disk of {what} in {folder} reads {speed / 1e6:.0f} MB/s: its {size / 1e9:.1f} GB take about "
        f"{minutes} min",
        hint,
    )


def _bytes_per_second(path: Path) -> float | None:
    """The best of three places of the file, without what the system holds in memory; None where it cannot
    leave that out."""
    if sys.platform != "linux":
        return None
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(handle).st_size
            return max(_read(handle, size * quarter // 4) for quarter in range(3))
        finally:
            os.close(handle)
    return None


def _read(handle: int, start: int) -> float:
    os.posix_fadvise(handle, start, _SAMPLE, os.POSIX_FADV_DONTNEED)
    before, began = _seconds_without_disk(), time.perf_counter()
    read = len(os.pread(handle, _SAMPLE, start))
    seconds = time.perf_counter() - began - (_seconds_without_disk() - before)
    return read / max(seconds, 1e-9)


def _seconds_without_disk() -> float:
    """In which this thread was on a core or waited for one: a busy machine makes no disk slow."""
    try:
        ran, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    except (OSError, ValueError):
        return time.thread_time()
    return (int(ran) + int(waited)) / 1e9
