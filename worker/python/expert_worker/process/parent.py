"""A worker ends when the CLI that started it ends, by the means that each operating system has."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


def parent_pid() -> int | None:
    """The process that started this one and ends it: the CLI, or the leader of several ranks. None for a
    worker that a person starts by hand, which stays independent."""
    parent = os.environ.get("EXPERT_PARENT_PID", "")
    return int(parent) if parent.isdecimal() else None


def bind_to_parent(*, reads_stdin: bool) -> None:
    parent = parent_pid()
    if parent is None:
        return
    if sys.platform == "linux":
        _request_death_signal(parent)
    elif sys.platform == "win32":
        pass  # The CLI keeps its workers in a job object that ends with it.
    elif not reads_stdin:  # A stage that reads standard input notices its end.
        exit_when_stdin_closes()


def _request_death_signal(parent: int) -> None:
    """The kernel kills this process when its parent ends."""
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have ended before the call above, which would then never fire.
    if os.getppid() != parent:
        os._exit(1)


def exit_when_stdin_closes() -> None:
    """Where there is no death signal: whoever started this process holds its standard input open."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
