"""The wish to stop: by a signal or a file in the run's folder, polled by stages between steps."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType

from expert_worker.errors import Interrupted

_FILE = "stop"
# A look at a file of a network file system takes a millisecond or more.
_ROUND = 1.0


class Stop:
    """The first signal asks the stage to save and leave; the second interrupts whatever is running."""

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
        signal.signal(signal.SIGINT, self._receive)
        signal.signal(signal.SIGTERM, self._receive)
        if hasattr(signal, "SIGBREAK"):
            signal.signal(signal.SIGBREAK, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        # A stop that another rank asked for does not count as the first signal.
        second, self._received = self._received, True
        self.request(terminated=number == signal.SIGTERM)
        if second:
            raise self.interrupted("Stopped at once, without a save")
