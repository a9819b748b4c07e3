"""A child that is its grandparent's: two forks, of which the middle one leaves at once.

The CLI has asked the kernel to be given the orphans among its descendants. It waits for the child, signals
its group and learns how it ended as if it had started it, and the child's bond to its parent is one to the
CLI.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from expert_worker.exit import Exit
from expert_worker.process import bind_to_parent, run_lock

if TYPE_CHECKING:
    import socket

    from expert_worker.warm.loop import Request
    from expert_worker.warm.ready import Readiness

_POLL = 0.001
_ADOPTION_SECONDS = 10.0


def hand_over(request: Request, control: socket.socket, readiness: Readiness) -> int:
    """The child's process id, reported once the CLI is its parent."""
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    read_end, write_end = os.pipe()
    middle = os.fork()
    if middle == 0:
        _leave_a_child(request, control, readiness, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        child = int(answer.read())
    # With the middle one gone, the child has its new parent.
    os.waitpid(middle, 0)
    return child


def _leave_a_child(
    request: Request, control: socket.socket, readiness: Readiness, write_end: int
) -> NoReturn:
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    middle = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        control.close()
        _live(request, readiness, middle)
    # Done on both sides, so that the group is there before anybody hears of it.
    os.setpgid(child, child)
    os.write(write_end, str(child).encode())
    os._exit(0)


def _live(request: Request, readiness: Readiness, middle: int) -> NoReturn:
    """Never returns into the parent's frames, which are not this process's to run."""
    if sys.platform != "linux":
        raise AssertionError("only for Linux")
    code = int(Exit.FAILED)
    try:
        if os.getpid() != os.getpgid(0):
            os.setpgid(0, 0)
        for place, handle in enumerate(request.streams):
            os.dup2(handle, place)
        request.close_streams()
        if request.run_lock is not None:
            run_lock.hold(request.run_lock)
        _await_adoption(middle)
        bind_to_parent(reads_stdin=False)
        readiness.restore_threads()
        code = _carry_out(request)
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code)


def _await_adoption(middle: int) -> None:
    deadline = time.monotonic() + _ADOPTION_SECONDS
    while os.getppid() == middle and time.monotonic() < deadline:
        time.sleep(_POLL)


def _carry_out(request: Request) -> int:
    from expert_worker.__main__ import carry_out
    from expert_worker.events.sinks import Pipe

    return carry_out(request.stage, request.plan, Pipe.of_stdout())
