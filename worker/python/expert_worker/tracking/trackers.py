"""Feeds the trackers from a separate thread: training never waits for a tracker, and continues if one
fails.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from expert_worker.event import Event
from expert_worker.events import Events
from expert_worker.tracking.scalars import Point, point

_ROOM = 10_000
_LAST_WORDS = 30.0


class Backend(Protocol):
    def log(self, point: Point) -> None: ...

    def close(self) -> None: ...


Opener = Callable[[], Backend]


class Trackers:
    """A sink of the event stream. Backends are opened in the thread too: connecting may take its time."""

    def __init__(self, openers: Sequence[tuple[str, Opener]], events: Events, every: int = 1) -> None:
        self._openers = openers
        self._events = events
        self._every = every
        self._backends: dict[str, Backend] = {}
        self._queue: queue.Queue[Point | None] = queue.Queue(_ROOM)
        self._last_step = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)
        self._thread.start()

    def write(self, event: Event, line: bytes) -> None:
        del line
        found = point(event.body, self._every)
        if found is None or self._closed:
            return
        # A tracker that is too far behind loses points rather than memory; events.jsonl has them all.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(found)

    def close(self) -> None:
        """Hand over what is left, but not for ever: the points are safe in events.jsonl."""
        if self._closed:
            return
        self._closed = True
        try:
            self._queue.put(None, timeout=_LAST_WORDS)
        except queue.Full:
            return
        self._thread.join(_LAST_WORDS)

    def _work(self) -> None:
        for name, opener in self._openers:
            self._guard(name, lambda name=name, opener=opener: self._open(name, opener))  # type: ignore[misc]
        while (found := self._queue.get()) is not None:
            self._last_step = found.step
            for name, backend in list(self._backends.items()):
                self._guard(name, lambda backend=backend: backend.log(found))  # type: ignore[misc]
        for name, backend in list(self._backends.items()):
            self._guard(name, backend.close)

    def _open(self, name: str, opener: Opener) -> None:
        self._backends[name] = opener()

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (Exception, SystemExit) as error:  # a tracker may raise anything; none may stop training
            self._backends.pop(name, None)
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            detail = f"{name} stopped ({reason}); training continues, events.jsonl keeps every number."
            self._events.recovered("tracker", self._last_step, detail)
