"""Who is answered next when requests for several adapters wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from expert_worker.endpoint.turns import Turns


class Crowd:
    """Requests, named `a1`, `b1`, ... by their adapter, that run until they are let go."""

    def __init__(self, parallel: int) -> None:
        self.turns = Turns(parallel)
        self.running: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ends: dict[str, asyncio.Event] = {}

    async def _run(self, name: str) -> None:
        await self.turns.begin(name[0])
        self.running.append(name)
        try:
            await self.ends[name].wait()
        finally:
            self.running.remove(name)
            self.turns.end()

    async def ask(self, *names: str) -> Sequence[str]:
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(name))
        return await self._settled()

    async def end(self, *names: str) -> Sequence[str]:
        for name in names:
            self.ends[name].set()
        return await self._settled()

    async def leave(self, *names: str) -> Sequence[str]:
        for name in names:
            self.tasks[name].cancel()
        return await self._settled()

    async def _settled(self) -> Sequence[str]:
        for _ in range(8):
            await asyncio.sleep(0)
        return sorted(self.running)


def test_one_adapter_has_all_slots_while_nobody_else_waits() -> None:
    async def play() -> None:
        crowd = Crowd(2)
        assert await crowd.ask("a1", "a2", "a3") == ["a1", "a2"]
        assert await crowd.end("a1") == ["a2", "a3"]
        assert crowd.turns.must_wait("b")
        assert await crowd.end("a2", "a3") == []
        assert not crowd.turns.must_wait("b")

    asyncio.run(play())


def test_others_wait_for_one_turn_and_not_for_all_that_keeps_coming() -> None:
    async def play() -> None:
        crowd = Crowd(2)
        await crowd.ask("a1", "a2")
        assert await crowd.ask("b1", "a3", "a4", "a5", "c1") == ["a1", "a2"]
        # A free slot is not given to `a` again, and `b` is not mixed into its turn.
        assert await crowd.end("a1") == ["a2"]
        assert await crowd.ask("a6") == ["a2"]
        assert await crowd.end("a2") == ["b1"]
        assert await crowd.end("b1") == ["a3", "a4"]
        assert await crowd.ask("b2") == ["a3", "a4"]
        assert await crowd.end("a3", "a4") == ["c1"]
        assert await crowd.end("c1") == ["a5", "a6"]
        assert await crowd.end("a5", "a6") == ["b2"]

    asyncio.run(play())


def test_clients_that_leave_lose_no_slot_and_hold_up_nobody() -> None:
    async def play() -> None:
        crowd = Crowd(1)
        await crowd.ask("a1", "b1", "c1", "c2")
        assert await crowd.leave("b1") == ["a1"]
        # Both at once: the turn of one that leaves goes to the next.
        crowd.ends["a1"].set()
        assert await crowd.leave("c1") == ["c2"]
        assert await crowd.leave("c2") == []
        assert await crowd.ask("d1") == ["d1"]
        # Its turn begins and its client leaves before it has run.
        await crowd.ask("e1", "f1")
        crowd.turns.end()
        crowd.tasks["e1"].cancel()
        assert await crowd._settled() == ["d1", "f1"]

    asyncio.run(play())


def test_a_full_house_of_leavers_leaves_an_empty_house() -> None:
    async def play() -> None:
        crowd = Crowd(3)
        names = [f"{group}{number}" for number in range(4) for group in "abc"]
        await crowd.ask(*names)
        await crowd.leave(*names)
        assert crowd.running == [] and not crowd.turns.must_wait("z")

    asyncio.run(play())
