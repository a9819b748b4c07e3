"""A run's `events.jsonl`, read while it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Tail:
    """Hands out whole lines as they come; what is half-written waits."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""

    def read(self) -> list[Line]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except OSError:
            return []
        self._at += len(new)
        *whole, self._rest = (self._rest + new).split(b"\n")
        return [line for line in map(parsed, whole) if line is not None]


def parsed(text: bytes) -> Line | None:
    """One event; None for what is no event, such as a line that a crash cut short."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    is_event = isinstance(line, dict) and isinstance(line.get("body"), dict)
    return line if is_event and isinstance(line.get("time"), int | float) else None


def last_attempt(lines: list[Line]) -> list[Line]:
    """The events of the newest start of a run, in the order of their times."""
    if not lines:
        return []
    newest = max(line.get("attempt", 1) for line in lines)
    return sorted((line for line in lines if line.get("attempt", 1) == newest), key=lambda line: line["time"])
