"""Where event lines go: the CLI's pipe, the run's record, a list in tests."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from expert_worker import lease
from expert_worker.checkpoint.files import NO_FOLLOW, replace
from expert_worker.errors import BadInput
from expert_worker.events.models import Event, Heartbeat, Progress, Text
from expert_worker.events.reader import parse
from expert_worker.process.stdout import claim_stdout
from expert_worker.storage import waits_for

_TAIL_BYTES = 1 << 20
_MOST_ATTEMPTS = 2**32 - 2
# About 50,000 steps.
_MOST_UNWRITTEN = 32 << 20


class Sink(Protocol):
    def write(self, event: Event, line: bytes) -> None: ...

    def close(self) -> None: ...


class Pipe:
    """The CLI's end of standard output. Nothing else can write there."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.broken = False

    @classmethod
    def of_stdout(cls) -> Self:
        return cls(claim_stdout())

    def write(self, event: Event, line: bytes) -> None:
        del event
        self.write_raw(line)

    def write_raw(self, line: bytes) -> None:
        """A closed pipe does not fail the run: training may outlive it by a step."""
        if self.broken:
            return
        try:
            _write_all(self.descriptor, line)
        except BrokenPipeError:
            self.broken = True

    def close(self) -> None:
        os.close(self.descriptor)


class ExpertPipe:
    """One expert's part of a pipe that several share: each line names the expert."""

    def __init__(self, pipe: Pipe, lock: threading.Lock, expert: str) -> None:
        self._pipe, self._lock = pipe, lock
        self._head = b'{"expert":' + json.dumps(expert).encode() + b',"event":'

    def write(self, event: Event, line: bytes) -> None:
        del event
        with self._lock:
            self._pipe.write_raw(self._head + line.rstrip(b"\n") + b"}\n")

    def close(self) -> None:
        """The pipe stays open for the others."""


class Memory:
    """Events in a list, for tests and for callers that want none written."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event, line: bytes) -> None:
        del line
        self.events.append(event)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Past:
    """What earlier attempts left in the record."""

    attempts: int
    last_step: int


class Record:
    """`events.jsonl` of a run. Signs of life (heartbeats, streamed text) are not history and stay out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise BadInput(
                f"{path} is a symbolic link: the run's events would be written where it leads",
                hint="Remove the link, or choose another folder with -o.",
                code="link-out",
            )
        if lease.folder_for(path) is not None and path.exists():
            # A task that lost its lease appends to the file that it has open, which is no longer this one.
            replace(path, path.read_bytes())
        _end_last_line(path)
        self.past = _read_past(path)
        # What the file did not take, from the byte on that it did not take.
        self._unwritten = bytearray()
        self._descriptor = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW | getattr(os, "O_BINARY", 0), 0o644
        )

    def write(self, event: Event, line: bytes) -> None:
        """Lines that the file does not take are kept, up to a limit, and written before the next one."""
        if isinstance(event.body, Heartbeat | Text):
            return
        is_lasting = event.body.type in {"checkpoint", "best", "finished", "failed"}
        with waits_for(self._path):
            try:
                self._flush()
            finally:
                if is_lasting or len(self._unwritten) < _MOST_UNWRITTEN:
                    self._unwritten += line
            self._flush()
            if is_lasting:
                os.fsync(self._descriptor)

    def _flush(self) -> None:
        while self._unwritten:
            del self._unwritten[: os.write(self._descriptor, self._unwritten)]

    def close(self) -> None:
        with suppress(OSError):
            self._flush()
        os.close(self._descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _end_last_line(path: Path) -> None:
    """A run killed in mid-write leaves half a line, which would swallow the next one."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        lines = list(_last_lines(path))
        if not lines or lines[0].endswith(b"\n"):
            return
        if parse(lines[0]) is not None:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
        else:
            file.truncate(path.stat().st_size - len(lines[0]))


def _read_past(path: Path) -> Past:
    attempts, last_step = 0, 0
    if path.exists():
        for line in _last_lines(path):
            event = parse(line)
            if event is None:
                continue
            # A damaged number must not make the next attempt's events invalid.
            attempts = max(attempts, min(event.attempt, _MOST_ATTEMPTS))
            if isinstance(event.body, Progress):
                last_step = event.body.step
                break
    return Past(attempts, last_step)


def _last_lines(path: Path) -> Iterator[bytes]:
    """The record's last lines, newest first; a line that the tail cuts off at its front is left out."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().splitlines(keepends=True)
    if size > _TAIL_BYTES:
        lines = lines[1:]
    yield from reversed(lines)
