"""The calls that wait for storage now, so that a disk, file server or object store that does not answer has a
name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Wait:
    path: Path | str
    since: float
    is_named: bool = False

    def answered(self) -> None:
        """One of several calls has returned; the next one begins."""
        self.since = time.monotonic()


_waits: dict[int, Wait] = {}


@contextmanager
def waits_for(path: Path | str) -> Iterator[Wait]:
    wait = Wait(path, time.monotonic())
    _waits[id(wait)] = wait
    try:
        yield wait
    finally:
        del _waits[id(wait)]


def unanswered(seconds: float) -> list[Path | str]:
    """What a call has waited for at least that long; each call once."""
    now = time.monotonic()
    found = [wait for wait in list(_waits.values()) if not wait.is_named and now - wait.since >= seconds]
    for wait in found:
        wait.is_named = True
    return [wait.path for wait in found]
