"""Which requests are answered at a time, where an engine computes only one adapter's answers together.

llama.cpp gives its slots to whoever comes and computes the first slot's adapter: while requests for that one
keep coming, those of another wait in slots that they hold. Here each adapter has a turn: as many of its
requests as there are slots. A turn ends when others wait and its requests are done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class Turns:
    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._running = 0
        self._group: Hashable = None
        # In the order of their next turns.
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    def must_wait(self, group: Hashable) -> bool:
        if self._waiting or self._running >= self._parallel:
            return True
        return self._running > 0 and group != self._group

    async def begin(self, group: Hashable) -> None:
        if not self.must_wait(group):
            self._group = group
            self._running += 1
            return
        started = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(started)
        try:
            await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled():
                # Its turn came at the moment when its client left.
                self.end()
            else:
                self._leave(group, started)
            raise

    def end(self) -> None:
        self._running -= 1
        self._advance()

    def _leave(self, group: Hashable, started: asyncio.Future[None]) -> None:
        queue = self._waiting.get(group, deque())
        if started in queue:
            queue.remove(started)
        if not queue:
            self._waiting.pop(group, None)
        self._advance()

    def _advance(self) -> None:
        """Starts the next turn when this one is over; fills this one while nobody else waits."""
        while self._waiting and (not self._running or set(self._waiting) == {self._group}):
            group = next(iter(self._waiting))
            queue = self._waiting.pop(group)
            while queue and self._running < self._parallel:
                started = queue.popleft()
                # One whose client has left is cancelled, and removes itself later.
                if not started.done():
                    started.set_result(None)
                    self._group = group
                    self._running += 1
            if queue:
                # Behind the others.
                self._waiting[group] = queue
            if self._running:
                return
