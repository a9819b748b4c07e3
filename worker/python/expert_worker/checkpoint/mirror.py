"""Copies finished checkpoints to any fsspec target while training continues. Failures are reported, never
raised.
"""

import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fsspec
import zstandard

from expert_worker.checkpoint.record import NAME as LAST
from expert_worker.checkpoint.unpack import SUFFIX
from expert_worker.errors import first_line
from expert_worker.events import Events

_ATTEMPTS = 3
_CHUNK = 1 << 20


class Mirror:
    """One thread, one folder at a time. `state.json` travels last: a folder without it is not whole."""

    def __init__(
        self,
        target: str,
        events: Events,
        *,
        compress: bool = False,
        background: bool = True,
        patience: float = 2.0,
    ) -> None:
        self.target = redacted(target)
        self._url = target
        self._events = events
        self._compress = compress
        self._patience = patience
        self._waiting: set[Path] = set()
        self._lock = threading.Lock()
        self._queue: queue.Queue[Path | None] = queue.Queue()
        self._cut_short = threading.Event()
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True) if background else None
        if self._thread:
            self._thread.start()

    def submit(self, folder: Path) -> None:
        """Now, or when the thread comes to it: keep the folder while it is `pending`."""
        with self._lock:
            self._waiting.add(folder)
        if self._thread:
            self._queue.put(folder)
        else:
            self._copy_or_report(folder)

    def pending(self) -> set[Path]:
        with self._lock:
            return set(self._waiting)

    def drain(self) -> None:
        """Wait for what has been submitted. Ctrl-C gets through and leaves the rest uncopied."""
        if self._thread is None:
            return
        left = len(self.pending())
        if left:
            self._events.stage("mirror", quiet_budget=600.0, detail=f"{left} to copy to {self.target}")
        self._queue.put(None)
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
                self._events.tick()
        except BaseException:
            self._cut_short.set()
            raise

    def _work(self) -> None:
        while (folder := self._queue.get()) is not None:
            self._copy_or_report(folder)

    def _copy_or_report(self, folder: Path) -> None:
        try:
            self._copy_patiently(folder)
        except Exception as error:  # any backend may raise anything; none may stop training
            self._events.warning(
                "mirror-failed",
                f"{folder.name} was not copied to {self.target}: {self._words(error)}",
                "The checkpoint itself is safe. Fix the target, or copy the folder by hand.",
            )
        finally:
            with self._lock:
                self._waiting.discard(folder)

    def _copy_patiently(self, folder: Path) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._copy(folder)
            except ImportError:
                raise
            except Exception:
                if attempt == _ATTEMPTS or self._cut_short.wait(self._patience * attempt):
                    raise
        return None

    def _copy(self, folder: Path) -> None:
        system, root = fsspec.core.url_to_fs(self._url)
        remote = PurePosixPath(root) / folder.name
        for path in _in_order(folder):
            # The record stays readable: `--resume` looks at it before anything is unpacked.
            packed = self._compress and path.name != LAST
            target = str(remote / (path.relative_to(folder).as_posix() + (SUFFIX if packed else "")))
            system.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
            with path.open("rb") as source, system.open(target, "wb") as sink:
                _pour(source, sink, packed=packed)
        self._events.applied("checkpoint_mirror", f"{self.target}/{folder.name}")

    def _words(self, error: Exception) -> str:
        if isinstance(error, ImportError):
            return f"the Python package for this kind of target is not installed ({error})"
        return first_line(error).replace(self._url, self.target)


def redacted(url: str) -> str:
    """The target without whatever in it may be a secret."""
    return re.sub(r"\?.*$", "", re.sub(r"(://)[^/@]*@", r"\1", url)).rstrip("/")


def _in_order(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(found, key=lambda path: (path.name == LAST, path))


def _pour(source: IO[bytes], sink: IO[bytes], *, packed: bool) -> None:
    with _compressed(sink) if packed else _plain(sink) as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)


@contextmanager
def _compressed(sink: IO[bytes]) -> Iterator[Any]:
    with zstandard.ZstdCompressor().stream_writer(sink, closefd=False) as writer:
        yield writer


@contextmanager
def _plain(sink: IO[bytes]) -> Iterator[Any]:
    yield sink
