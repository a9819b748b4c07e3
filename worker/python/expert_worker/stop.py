"""The wish to stop: by a signal or a file in the run's folder, polled by stages between steps."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from expert_worker.errors import Interrupted
from expert_worker.process import parent_pid

_FILE = "stop"
# Ctrl-C, the end of a job by its service manager or cluster, the end of the terminal.
SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
)
_HANGUP = getattr(signal, "SIGHUP", None)
# A look at a file of a network file system takes a millisecond or more.
_ROUND = 1.0


def terminates(number: int) -> bool:
    """Whether this signal means 143 as the exit code, and not 130."""
    return number in (signal.SIGTERM, _HANGUP)


@contextmanager
def signals_blocked(*, spawning: bool) -> Iterator[None]:
    """Processes that are started meanwhile have them blocked in every thread. One that is spawned could not
    block them itself: NumPy, which it imports first, has threads already."""
    if sys.platform != "linux":
        yield
        return
    if spawning:
        from multiprocessing import resource_tracker

        # Otherwise the first spawned process starts it, which unblocks INT and TERM.
        resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey_parent_only() -> None:
    """For a process that reads data for the one that trains, and was started with `signals_blocked`. A
    service manager's or cluster's signal to every process of a job must not end it before the run is saved;
    its parent ends it, by TERM too."""
    if sys.platform != "linux":
        return

    def wait() -> None:
        while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
            pass
        os._exit(0)

    threading.Thread(target=wait, name="signals", daemon=True).start()


class Stop:
    """The first signal asks the stage to save and leave. In a worker that a person started by hand, the
    second interrupts whatever is running."""

    def __init__(self, worker: Stop | None = None) -> None:
        """`worker`: the wish that all runs of a worker stop, where this is one run's."""
        self._requested = False
        self._terminated = False
        self._received = False
        self._worker = worker
        self._file: Path | None = None
        self._looked = 0.0

    def watch(self, folder: Path) -> None:
        """The run's folder, where `expert-cli stop` leaves a file."""
        self._file = folder / _FILE

    @property
    def requested(self) -> bool:
        if self._worker is not None and self._worker.requested:
            return True
        now = time.monotonic()
        if not self._requested and self._file is not None and now - self._looked >= _ROUND:
            self._looked = now
            self._requested = self._file.exists()
        return self._requested

    @property
    def terminated(self) -> bool:
        return self._terminated or (self._worker is not None and self._worker.terminated)

    def request(self, *, terminated: bool) -> None:
        self._requested = True
        self._terminated = terminated

    def interrupted(self, message: str) -> Interrupted:
        """What a stage raises once it has saved."""
        return Interrupted(message, terminated=self.terminated)

    def raise_if_requested(self, message: str = "Stopped on request") -> None:
        if self.requested:
            raise self.interrupted(message)

    def install(self) -> None:
        """From the main thread only, as Python asks."""
        for number in SIGNALS:
            # nohup has the process ignore the end of its terminal.
            if number != _HANGUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        # A stop that another rank asked for does not count as the first signal.
        repeated, self._received = self._received, True
        if repeated and not self._ends_at_once(number):
            return
        self.request(terminated=terminates(number))
        if repeated:
            raise self.interrupted("Stopped at once, without a save")

    @staticmethod
    def _ends_at_once(repeated: int) -> bool:
        """Whether this signal, which is not the first, asks for an end without a save.

        systemd and Slurm signal every process of a job, and the CLI passes its signal on: this process gets
        two for one. A second request is made to the CLI, which kills this process. A terminal that closes
        sends several.
        """
        return parent_pid() is None and repeated != _HANGUP
