"""`events.jsonl` read back: the only reader of events on Python's side.

Anything may stand in the file: a crash cuts a line short, a disk flips a bit, a downloaded run is forged.
Each line is checked against the event models; a line that does not fit is counted and left out, never raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from expert_worker.document import Document
from expert_worker.events.models import Event

NAME = "events.jsonl"
LONGEST_LINE = 16 << 20
# The first second of the year 10000: datetime shows none after it.
_END_OF_TIME = 253_402_300_800.0


def parse(line: bytes) -> Event | None:
    """One event, or None for what is not one."""
    try:
        event = Event.model_validate_json(line)
    except ValidationError:
        return None
    return event if 0 <= event.time < _END_OF_TIME else None


class EventFile:
    """Hands out the events of a file that may still grow. Memory is bounded by the longest line."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self.left_out = 0
        """Lines so far that are not events."""

    def read(self, *, ended: bool = False) -> Iterator[Event]:
        """What came since the last call. A last line without its newline is still being written and waits,
        unless the file has `ended`."""
        try:
            # A named pipe or a device would block or never end.
            if not self._path.is_file():
                return
            with self._path.open("rb") as file:
                file.seek(self._at)
                yield from self._events(file, ended)
        except OSError:
            return

    def _events(self, file: BinaryIO, ended: bool) -> Iterator[Event]:
        while line := file.readline(LONGEST_LINE):
            whole = line.endswith(b"\n")
            if not whole and len(line) == LONGEST_LINE:
                self._at += len(line) + _skip_line(file)
                self.left_out += 1
                continue
            if not whole and not ended:
                return
            self._at += len(line)
            event = parse(line)
            if event is not None:
                yield event
            elif whole and line.strip():
                self.left_out += 1


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while piece := file.readline(LONGEST_LINE):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def last_attempt(events: Iterable[Event], having: type[Document] | None = None) -> list[Event]:
    """The events of the newest attempt, or of the newest that has such an event, ordered by time."""
    known = list(events)
    having_it = (it.attempt for it in known if having is None or isinstance(it.body, having))
    newest = max(having_it, default=0)
    return sorted((event for event in known if event.attempt == newest), key=lambda event: event.time)
