"""`benches/serving` finds what it looks for: another answer than alone, and a server that fails."""

import asyncio
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .test_server import FakeEngine, Limits, server, within

sys.path.append(str(Path(__file__).parents[3] / "benches" / "serving"))

from agree import _at_once
from questions import Question
from soak import Soak

QUESTIONS = [Question("ash", Path(), ({"role": "user", "content": f"question {n}"},)) for n in range(3)]
ROOMY = Limits(parallel=4, queue=16, most_tokens=50, request_seconds=20.0)
SECONDS = 1.5


def quick_engine(letters: str = "abc") -> FakeEngine:
    engine = FakeEngine(letters)
    engine.may_go_on.set()
    return engine


def soaked(known: list[str], letters: str = "abc") -> Soak:
    found: list[Soak] = []

    async def test(_: Any, client: Any) -> None:
        here = SimpleNamespace(url=str(client.make_url("")).rstrip("/"), lives=lambda: True)
        one = Soak(here, QUESTIONS, known)
        end = time.monotonic() + SECONDS
        await asyncio.gather(*(one.client(number, end) for number in range(4)))
        found.append(one)

    within(lambda: server(quick_engine(letters), ROOMY), test)
    return found[0]


def test_a_good_server_passes_with_every_kind_of_request() -> None:
    one = soaked(["abc"] * 3)
    assert (one.wrong, one.failures) == ([], [])
    assert set(one.done) == {
        "question", "stream", "cancelled", "half_a_stream", "garbage", "too_long", "unknown_model",
    }  # fmt: skip


def test_another_answer_than_alone_is_counted() -> None:
    one = soaked(["abc", "abd", "abc"])
    assert one.wrong and all(it["question"] == "question 1" for it in one.wrong)


def test_an_error_of_the_server_is_a_failure() -> None:
    one = soaked(["abc"] * 3, "ab!")
    assert {failure.split(":")[0] for failure in one.failures} >= {"question", "stream"}, one.failures[:5]


def test_mixed_requests_come_back_in_order() -> None:
    async def test(_: Any, client: Any) -> None:
        here: Any = SimpleNamespace(url=str(client.make_url("")).rstrip("/"))
        assert await _at_once(here, QUESTIONS * 4, 3) == ["abc"] * 12

    within(lambda: server(quick_engine(), ROOMY), test)
