"""The applied settings, collected for the run's record."""

from typing import Any

from expert_worker.event import Applied, Event


class Settings:
    """A listener of the event stream."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Applied):
            self.values[event.body.key] = event.body.value

    def close(self) -> None:
        """Nothing to close."""
