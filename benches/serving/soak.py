"""Minutes of mixed requests: questions, streams, cancelled ones, garbage and prompts that are too long."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from agree import WAIT, ask, options
from aiohttp import ClientError, ClientSession
from questions import Question
from running import Running, running

SAMPLE_SECONDS = 5.0
# Caches fill at first; growth is counted from here.
WARM_SHARE = 0.3
# What the memory may have grown by afterwards.
MOST_GROWTH = 1.05
GARBAGE = (b"", b"{", b"[1,2]", b"\xff\xfe", b'{"model":', b'{"model": 3, "messages": "x"}', b"null", b"{}")


class Soak:
    def __init__(self, server: Running, questions: Sequence[Question], known: Sequence[str]) -> None:
        self.server, self.questions, self.known = server, questions, known
        self.done: Counter[str] = Counter()
        self.wrong: list[dict[str, str]] = []
        self.failures: list[str] = []

    async def client(self, number: int, end: float) -> None:
        draw = Random(number)
        kinds: Sequence[tuple[Callable[[ClientSession, Random], Awaitable[None]], int]] = (
            (self.question, 10),
            (self.stream, 4),
            (self.cancelled, 3),
            (self.half_a_stream, 2),
            (self.garbage, 2),
            (self.too_long, 1),
            (self.unknown_model, 1),
        )
        async with ClientSession(timeout=WAIT) as session:
            while time.monotonic() < end and self.server.lives():
                kind = draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
                name = kind.__name__
                try:
                    await kind(session, draw)
                    self.done[name] += 1
                except (ClientError, RuntimeError, TimeoutError) as error:
                    self.failures.append(f"{name}: {error!r}"[:300])

    async def question(self, session: ClientSession, draw: Random) -> None:
        place = draw.randrange(len(self.questions))
        self._compare(place, await ask(self.server, self.questions[place], session))

    async def stream(self, session: ClientSession, draw: Random) -> None:
        place = draw.randrange(len(self.questions))
        body = {**self.questions[place].body, "stream": True}
        pieces = []
        async with session.post(self._url(), json=body) as response:
            async for line in response.content:
                pieces += _pieces(line)
        self._compare(place, "".join(pieces))

    async def cancelled(self, session: ClientSession, draw: Random) -> None:
        asked = asyncio.ensure_future(ask(self.server, draw.choice(self.questions), session))
        await asyncio.wait([asked], timeout=draw.uniform(0, 1))
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    async def half_a_stream(self, session: ClientSession, draw: Random) -> None:
        body = {**draw.choice(self.questions).body, "stream": True}
        async with session.post(self._url(), json=body) as response:
            await response.content.readline()
            response.close()

    async def garbage(self, session: ClientSession, draw: Random) -> None:
        await self._refused(session, draw.choice(GARBAGE), 400)

    async def too_long(self, session: ClientSession, draw: Random) -> None:
        question = draw.choice(self.questions)
        words = "word " * draw.choice((5_000, 50_000))
        body = {"model": question.expert, "messages": [{"role": "user", "content": words}]}
        async with session.post(self._url(), json=body) as response:
            self._expect(response.status, 400, "too_long")

    async def unknown_model(self, session: ClientSession, _draw: Random) -> None:
        await self._refused(
            session, b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}', 404
        )

    async def _refused(self, session: ClientSession, body: bytes, status: int) -> None:
        headers = {"Content-Type": "application/json"}
        async with session.post(self._url(), data=body, headers=headers) as response:
            self._expect(response.status, status, repr(body))

    def _expect(self, status: int, wanted: int, what: str) -> None:
        if status != wanted:
            raise RuntimeError(f"{what} was answered with {status}, not {wanted}")

    def _compare(self, place: int, text: str) -> None:
        if text != self.known[place]:
            question = self.questions[place]
            self.wrong.append(
                {
                    "expert": question.expert,
                    "question": str(question),
                    "alone": self.known[place],
                    "now": text,
                }
            )

    def _url(self) -> str:
        return f"{self.server.url}/v1/chat/completions"


def _pieces(line: bytes) -> list[str]:
    if not line.startswith(b"data: {"):
        return []
    document = json.loads(line.removeprefix(b"data: "))
    if "error" in document:
        raise RuntimeError(f"500 in a stream: {document['error']['message']}")
    return [choice["delta"].get("content") or "" for choice in document["choices"]]


async def soak(
    runs: Sequence[Path], questions: Sequence[Question], clients: int, minutes: float, threads: int
) -> dict[str, Any]:
    with running(runs, *options(clients, 4 * clients, threads)) as server:
        known = [await ask(server, question) for question in questions]
        one = Soak(server, questions, known)
        began = time.monotonic()
        memory: list[tuple[float, int]] = []

        async def sample() -> None:
            while server.lives():
                memory.append((time.monotonic() - began, server.resident_bytes()))
                await asyncio.sleep(SAMPLE_SECONDS)

        sampling = asyncio.create_task(sample())
        await asyncio.gather(*(one.client(number, began + minutes * 60) for number in range(clients)))
        sampling.cancel()
        lived = server.lives()
        log = server.log.read_text()
    warm = [size for at, size in memory if at >= WARM_SHARE * minutes * 60]
    growth = _median(warm[-len(warm) // 4 :]) / _median(warm[: max(1, len(warm) // 4)]) if warm else 0.0
    traces = log.count("Traceback")
    return {
        "ok": lived and not one.wrong and not one.failures and not traces and 0 < growth <= MOST_GROWTH,
        "minutes": minutes,
        "clients": clients,
        "requests": dict(one.done),
        "wrong_answers": len(one.wrong),
        "first_wrong": one.wrong[:5],
        "failures": len(one.failures),
        "first_failures": one.failures[:5],
        "tracebacks_in_log": traces,
        "memory_growth": round(growth, 4),
        "resident_mib": [round(size / 2**20) for _, size in memory[:: max(1, len(memory) // 20)]],
    }


def _median(sizes: Sequence[int]) -> float:
    return float(sorted(sizes)[len(sizes) // 2])
