"""Names everything a process does to the files below a folder, and stops it dead at a chosen point.

A point is one call about to happen ("fsync checkpoint-4.partial/state.json"), or a write of which half has
reached the file. The n-th time the same is done has its number in the name: a point is the same in every run.
"""

import errno
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BY_PATH = ("mkdir", "rename", "replace", "unlink", "rmdir")


class Faults:
    """`kill`, `stop` (as Ctrl-C does) and `refuse` name a point; `seen` collects the names of all that were
    passed."""

    def __init__(
        self,
        folder: Path,
        *,
        kill: str | None = None,
        stop: str | None = None,
        refuse: str | None = None,
    ) -> None:
        self._root = str(folder)
        self._kill = kill
        self._stop = stop
        self._refuse = refuse
        self._names: dict[int, str] = {}
        self._count: Counter[str] = Counter()
        self._real: dict[str, Callable[..., Any]] = {}
        self.seen: list[str] = []

    def install(self) -> None:
        for name in ("open", "write", "fsync", "close", *_BY_PATH):
            self._real[name] = getattr(os, name)
        os.open = self._open
        os.write = self._write
        os.fsync = self._fsync
        os.close = self._close
        for name in _BY_PATH:
            setattr(os, name, self._by_path(name))

    def uninstall(self) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)

    def pass_point(self, what: str) -> None:
        self._count[what] += 1
        name = f"{what} #{self._count[what]}"
        self.seen.append(name)
        if name == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if name == self._stop:
            os.kill(os.getpid(), signal.SIGINT)
        if name == self._refuse:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _inside(self, path: Any) -> str | None:
        if isinstance(path, int):
            return None
        text = os.fspath(path)
        return text[len(self._root) + 1 :] or "." if text.startswith(self._root) else None

    def _open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        inside = self._inside(path)
        if inside and flags & (os.O_WRONLY | os.O_RDWR):
            self.pass_point(f"open {inside}")
        handle: int = self._real["open"](path, flags, *rest, **named)
        if inside:
            self._names[handle] = inside
        return handle

    def _write(self, handle: int, data: Any) -> int:
        name = self._names.get(handle)
        if name is None:
            return self._real["write"](handle, data)
        view = memoryview(data)
        label = f"write {_line_label(name, view)}"
        self.pass_point(label)
        half = len(view) // 2
        if self._kill == f"{label} #{self._count[label]} half" and half:
            self._real["write"](handle, view[:half])
            os.kill(os.getpid(), signal.SIGKILL)
        if half:
            self.seen.append(f"{label} #{self._count[label]} half")
        return self._real["write"](handle, data)

    def _fsync(self, handle: int) -> None:
        if handle in self._names:
            self.pass_point(f"fsync {self._names[handle]}")
        self._real["fsync"](handle)

    def _close(self, handle: int) -> None:
        self._names.pop(handle, None)
        self._real["close"](handle)

    def _by_path(self, name: str) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            inside = self._inside(path)
            if named.get("dir_fd") is not None:
                inside = os.fspath(path)
            if inside:
                self.pass_point(f"{name} {inside}")
            return self._real[name](path, *rest, **named)

        return call


def _line_label(name: str, data: memoryview) -> str:
    """In the record of events a write is named by what it says, since how many there are depends on time."""
    if name != "events.jsonl":
        return name
    body = json.loads(bytes(data))["body"]
    return f"{name} {body['type']} {body.get('step', body.get('name', ''))}".strip()
