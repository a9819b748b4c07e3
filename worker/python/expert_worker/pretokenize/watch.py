"""Ends this process, with a message, when foreign input makes native code run away.

A base's chat template and tokenizer come from strangers, and so may data. They are read by native code, which
no exception reaches: it can take all memory within seconds, or never return. A thread watches the memory of
the process and the time since the work last moved on. It also hears Ctrl-C, which the main thread does not
meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

from expert_worker.errors import BadInput, ExpertError, Interrupted
from expert_worker.events import Events
from expert_worker.stop import SIGNALS, terminates

# More than any row needs: rows are at most 16 MiB long.
MOST_GROWTH = 2 << 30
# Processor seconds of all threads without an `advance` or a `stage`; half a MiB of rows usually takes one.
# Wall-clock time would also count while a busy machine runs other processes.
MOST_SILENCE = 600.0
# Seconds within which the work must react to a request to stop.
_GRACE = 5.0
_ROUND = 0.02
# Names of the data that are being read just now.
_reading: list[str] = []


@contextlib.contextmanager
def reading(data: str) -> Iterator[None]:
    """Inside, memory and time are the data's doing, not the base's."""
    _reading.append(data)
    try:
        yield
    finally:
        _reading.remove(data)


@contextlib.contextmanager
def watched(events: Events, what: str) -> Iterator[None]:
    """`what` names whose doing it is, for the message."""
    done = threading.Event()
    with _wakes() as woken:
        thread = threading.Thread(target=_watch, args=(events, what, done, woken), name="watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _watch(events: Events, what: str, done: threading.Event, woken: int | None) -> None:
    start = held_bytes()
    ticks, moved = events.ticks, time.process_time()
    stop: tuple[float, int] | None = None
    while not done.wait(_ROUND):
        now, used = time.monotonic(), time.process_time()
        held = held_bytes()
        if events.ticks != ticks:
            ticks, moved, start = events.ticks, used, held
        if stop is None and (number := _signal(woken)) is not None:
            stop = now, number
        if stop is not None and now - stop[0] > _GRACE:
            _end(events, Interrupted("Stopped; nothing was kept", terminated=terminates(stop[1])))
        if held - start > MOST_GROWTH:
            _end(events, _refusal(what, f"takes more than {MOST_GROWTH >> 30} GiB of memory for a few rows"))
        if used - moved > MOST_SILENCE:
            _end(events, _refusal(what, f"has not ended after {MOST_SILENCE:.0f} s of processor time"))


def _refusal(what: str, does: str) -> BadInput:
    if data := next(iter(_reading), None):
        return BadInput(
            f"Reading {data} {does}",
            hint="A row may be 16 MiB long. Check the file, or write its rows as JSON Lines.",
            code="runaway-data",
        )
    return BadInput(
        f"{what} {does}",
        hint="Use a base whose tokenizer files you trust, or set prompt_template to a built-in one. If your "
        "rows are many MB long, shorten them or tokenize with fewer threads.",
        code="runaway-base",
    )


def _end(events: Events, error: ExpertError) -> None:
    """From this thread, and at once: the main one is somewhere in native code and may still take memory. What
    libraries do at exit would give it the time to abort the process."""
    events.failed(error)
    events.close()
    sys.stderr.flush()
    os._exit(error.exit_code)


@contextlib.contextmanager
def _wakes() -> Iterator[int | None]:
    """A descriptor to which every signal's number is written at once; only the main thread can ask for it."""
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield None
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def _signal(woken: int | None) -> int | None:
    """The number of a signal that asks this process to stop."""
    if woken is None:
        return None
    with contextlib.suppress(BlockingIOError):
        for number in os.read(woken, 64):
            if number in SIGNALS:
                return number
    return None


def held_bytes() -> int:
    """Memory of this process: without file mappings, where the system separates them."""
    if sys.platform == "linux":
        with open("/proc/self/status", "rb") as lines:  # noqa: PTH123
            found = next((line for line in lines if line.startswith(b"RssAnon:")), b"RssAnon: 0")
        return int(found.split()[1]) * 1024
    return _held_elsewhere()


def _held_elsewhere() -> int:
    """On macOS the resident memory, on Windows the private bytes."""
    import psutil

    found = psutil.Process().memory_info()
    return int(getattr(found, "private", found.rss))
