"""The wish to stop: set by a signal, polled by stages between steps."""

import signal
from types import FrameType

from expert_worker.errors import Interrupted


class Stop:
    """The first signal asks the stage to save and leave; the second interrupts whatever is running."""

    def __init__(self) -> None:
        self.requested = False
        self.terminated = False
        self._received = False

    def request(self, *, terminated: bool) -> None:
        self.requested = True
        self.terminated = terminated

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
