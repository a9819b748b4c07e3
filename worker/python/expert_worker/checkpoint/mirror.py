"""Copies finished checkpoints to any fsspec target while training continues. Failures are reported, never
raised.
"""

import json
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

import fsspec
import zstandard
from fsspec.implementations.local import LocalFileSystem

from expert_worker.checkpoint.compatible import is_same_run
from expert_worker.checkpoint.record import NAME as LAST
from expert_worker.checkpoint.unpack import SUFFIX
from expert_worker.errors import first_line
from expert_worker.events import Events
from expert_worker.storage import waits_for

_ATTEMPTS = 3
_CHUNK = 1 << 20
_ROUND = 0.5
# Without a byte. A multipart upload is silent for as long as one of its parts takes.
_PATIENCE_AT_END = 300.0
# Before the CLI ends a worker that was asked to stop, by default after 120 s.
_PATIENCE_AFTER_STOP = 60.0
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_COPY_BY_HAND = "The checkpoint itself is safe. Fix the target, or copy the folder by hand."
_OTHER_TARGET = (
    "Empty that folder, or give each run its own: "
    "{expert-name} and {model-slug} in checkpoint_mirror are filled in."
)
_OTHER_FOLDER = (
    "The checkpoint itself is safe. Name another folder in checkpoint_mirror, or another for the run with -o."
)


class _RefusedError(Exception):
    """Nothing may be written there: it may hold the only copies of checkpoints."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


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
        self._waiting: list[Path] = []
        self._moved = 0
        self._lock = threading.Lock()
        self._is_own = False
        self._queue: queue.Queue[Path | None] = queue.Queue()
        self._cut_short = threading.Event()
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True) if background else None
        if self._thread:
            self._thread.start()

    def submit(self, folder: Path) -> None:
        """Now, or when the thread comes to it: keep the folder while it is `pending`."""
        with self._lock:
            self._waiting.append(folder)
        if self._thread:
            self._queue.put(folder)
        else:
            self._copy_or_report(folder)

    def pending(self) -> set[Path]:
        with self._lock:
            return set(self._waiting)

    def drain(self) -> None:
        """Waits for what has been submitted while bytes move; the rest is reported as not copied."""
        if self._thread is None:
            return
        left = len(self.pending())
        if left:
            self._events.stage("mirror", quiet_budget=600.0, detail=f"{left} to copy to {self.target}")
        self._queue.put(None)
        moved, silent = self._moved, 0.0
        try:
            while self._thread.is_alive():
                self._thread.join(_ROUND)
                if self._moved != moved:
                    moved, silent = self._moved, 0.0
                    self._events.tick()
                    continue
                # Of rounds, not of the clock: while this process is paused, nothing could move.
                silent += _ROUND
                if silent >= (_PATIENCE_AFTER_STOP if self._events.stop_requested else _PATIENCE_AT_END):
                    self._give_up(f"no answer for {silent:.0f} s")
                    return
        except BaseException:
            self._give_up("the wait for it was interrupted")
            raise

    def _give_up(self, reason: str) -> None:
        self._cut_short.set()
        with self._lock:
            left, self._waiting = self._waiting, []
        for folder in left:
            self._report(folder, reason, _COPY_BY_HAND)

    def _work(self) -> None:
        while (folder := self._queue.get()) is not None and not self._cut_short.is_set():
            self._copy_or_report(folder)

    def _copy_or_report(self, folder: Path) -> None:
        try:
            self._copy_patiently(folder)
        except Exception as error:  # any backend may raise anything; none may stop training
            hint = error.hint if isinstance(error, _RefusedError) else _COPY_BY_HAND
            if self._is_awaited(folder):
                self._report(folder, self._words(error), hint)
        finally:
            with self._lock:
                if folder in self._waiting:
                    self._waiting.remove(folder)

    def _is_awaited(self, folder: Path) -> bool:
        """No longer once `drain` has given it up, and reported it."""
        with self._lock:
            return folder in self._waiting

    def _report(self, folder: Path, reason: str, hint: str) -> None:
        self._events.warning(
            "mirror-failed", f"{folder.name} was not copied to {self.target}: {reason}", hint
        )

    def _copy_patiently(self, folder: Path) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._copy(folder)
            except (ImportError, _RefusedError):
                raise
            except Exception:
                if attempt == _ATTEMPTS or self._cut_short.wait(self._patience * attempt):
                    raise
        return None

    def _copy(self, folder: Path) -> None:
        with waits_for(f"{self.target}/{folder.name}") as wait:

            def moved() -> None:
                self._moved += 1
                wait.answered()

            system, root = fsspec.core.url_to_fs(self._url)
            remote = PurePosixPath(root) / folder.name
            if isinstance(system, LocalFileSystem) and _is_in(folder, Path(remote)):
                raise _RefusedError("it is the run's own folder", _OTHER_FOLDER)
            self._refuse_another_run(system, root, folder)
            _mark_as_not_whole(system, str(remote / LAST))
            for path in _in_order(folder):
                # The record stays readable: `--resume` looks at it before anything is unpacked.
                packed = self._compress and path.name != LAST
                target = str(remote / (path.relative_to(folder).as_posix() + (SUFFIX if packed else "")))
                system.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
                with path.open("rb") as source, system.open(target, "wb") as sink:
                    _pour(source, sink, moved, packed=packed)
                moved()
        self._events.applied("checkpoint_mirror", f"{self.target}/{folder.name}")

    def _refuse_another_run(self, system: Any, root: str, folder: Path) -> None:
        """Looked at once: afterwards the newest copy is this run's."""
        if self._is_own:
            return
        ours = _facts((folder / LAST).read_bytes())
        theirs = next(_facts_there(system, root), None)
        if theirs is not None and not is_same_run(theirs, ours):
            recipe = theirs.get("recipe") or {}
            base = (recipe.get("base") or {}).get("name")
            raise _RefusedError(
                "it holds checkpoints of another run, or of other settings or data "
                f"({recipe.get('expert')} on {base})",
                _OTHER_TARGET,
            )
        self._is_own = True

    def _words(self, error: Exception) -> str:
        if isinstance(error, ImportError):
            return f"the Python package for this kind of target is not installed ({error})"
        return first_line(error).replace(self._url, self.target)


def redacted(url: str) -> str:
    """The target without whatever in it may be a secret."""
    return re.sub(r"\?.*$", "", re.sub(r"(://)[^/@]*@", r"\1", url)).rstrip("/")


def _is_in(folder: Path, path: Path) -> bool:
    """Whether the path is the folder or leads into it, also through a link or by another spelling."""
    path = path.resolve()
    return any(one.exists() and one.samefile(folder) for one in (path, *path.parents))


def _facts_there(system: Any, root: str) -> Iterator[dict[str, Any]]:
    """Of the whole checkpoints at the target, the newest first."""
    try:
        names = [str(name) for name in system.ls(root, detail=False)]
    except FileNotFoundError:
        return
    found = [(match, name) for name in names if (match := _CHECKPOINT.fullmatch(PurePosixPath(name).name))]
    for _, name in sorted(found, key=lambda pair: -int(pair[0][1])):
        try:
            yield _facts(system.cat_file(f"{name}/{LAST}"))
        except (FileNotFoundError, ValueError, AttributeError):  # Not whole, or not a checkpoint.
            continue


def _facts(state: bytes) -> dict[str, Any]:
    return dict(json.loads(state).get("facts") or {})


def _mark_as_not_whole(system: Any, state: str) -> None:
    """An earlier copy, before its first file is replaced."""
    if system.exists(state):
        with suppress(PermissionError):  # Of a target that may only be written.
            system.rm_file(state)


def _in_order(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(found, key=lambda path: (path.name == LAST, path))


def _pour(source: IO[bytes], sink: IO[bytes], moved: Callable[[], None], *, packed: bool) -> None:
    with _compressed(sink) if packed else _plain(sink) as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)
            moved()


@contextmanager
def _compressed(sink: IO[bytes]) -> Iterator[Any]:
    with zstandard.ZstdCompressor().stream_writer(sink, closefd=False) as writer:
        yield writer


@contextmanager
def _plain(sink: IO[bytes]) -> Iterator[Any]:
    yield sink
