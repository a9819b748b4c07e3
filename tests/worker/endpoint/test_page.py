"""The page at `/` as a reader uses it: in a browser, narrow and wide."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from export.test_gguf import tokenizer
from report.browser import NEEDS_BROWSER, Browser

from expert_worker.endpoint.engine import EngineFailed, Piece, Question
from expert_worker.endpoint.server import Limits, Server
from expert_worker.endpoint.shelf import models, read_experts
from expert_worker.routing.router import Route

from .tiny_shelf import scored, tiny_base, tiny_expert, tiny_plan

pytestmark = NEEDS_BROWSER
TOKEN = "a-token-of-some-length"
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map(e => e.outerHTML.slice(0, 80))"""

SHOWN_TOKEN = "document.getElementById('token').getClientRects().length > 0"


class Echo:
    """Answers with who was asked, and a long word; `wait` never ends."""

    name, context, ready = "echo", 400, True
    one_adapter_at_a_time = False

    def __init__(self) -> None:
        self.left = 0

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def answer(self, question: Question) -> AsyncGenerator[Piece, None]:
        prompt = tokenizer().decode(question.prompt)
        try:
            if "broken" in prompt:
                raise EngineFailed("broken")
            yield Piece(f"<b>{question.adapter}</b> ", 1)
            if "wait" in prompt:
                await asyncio.Event().wait()
            yield Piece("long" * 100, 2, "length")
        finally:
            self.left += 1


class Chooser:
    def route(self, prompt: str) -> Route:
        return Route("birch", 1.0)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("page")
    base = tiny_base(folder / "base")
    name = "an-expert-with-a-name-that-is-as-long-as-they-come-and-longer"
    finals = [tiny_expert(base, folder / it, it, seed) for seed, it in enumerate((name, "birch"))]
    scored(finals[0], correct=30)
    leave_test_rows(finals[0].parent, base)
    return models(read_experts(finals), tokenizer(), base)


def leave_test_rows(run: Path, base: Path) -> None:
    """As a run has them: its plan names the file, its evaluation has a score for each tag."""
    rows = [
        {"prompt": "a table\nHow many?", "completion": "1", "tags": ["count"]},
        {"prompt": "a table\nWhich <b>one</b>?", "completion": "2", "tags": ["count", "order"]},
        {"prompt": "Why?", "completion": "3"},
    ]
    data = run / "test.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    changes = {"recipe.data.test": [source], "machine.paths.data": {"test.jsonl": str(data)}}
    changes |= {"machine.paths.expert_dir": str(run)}
    (run / "manifest.json").write_text("{}")
    (run / "plan.json").write_text(
        tiny_plan(base, run, "x", **changes).model_dump_json(by_alias=True, exclude_unset=True)
    )
    share = {"correct": 5, "total": 8}
    (run / "evaluation.json").write_text(json.dumps({"by_tag": [{"name": "count", "adapter": share}]}))


@pytest.fixture
def site(shelf: Any, request: pytest.FixtureRequest) -> Iterator[tuple[str, Echo]]:
    """In a thread, because the browser is spoken to in this one."""
    loop, engine = asyncio.new_event_loop(), Echo()
    port: list[int] = []

    async def start() -> web.AppRunner:
        server = Server(engine, shelf, Limits(4, 4, 100, 30.0), **getattr(request, "param", {}))
        runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.append(runner.addresses[0][1])
        return runner

    runner = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{port[0]}/", engine
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def text(browser: Browser, name: str) -> str:
    return str(browser.ask(f"document.getElementById('{name}').textContent"))


def ask(browser: Browser, prompt: str) -> None:
    browser.ask(f"document.getElementById('prompt').value = '{prompt}'")
    browser.ask("document.getElementById('send').click()")


@pytest.mark.parametrize(("width", "scheme"), [(420, "dark"), (1000, "light"), (1400, "light")])
def test_base_and_expert_answer_side_by_side(
    width: int, scheme: str, browser: Browser, site: tuple[str, Echo]
) -> None:
    browser.look(site[0], width=width, scheme=scheme)
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 2)
    assert text(browser, "score") == "accuracy 75.0 % (0.0 to 100.0 %) of 40 test rows; base 75.0 %"
    assert not browser.ask(SHOWN_TOKEN)
    ask(browser, "hello")
    until(lambda: "2 tokens" in text(browser, "base-about") and "2 tokens" in text(browser, "expert-about"))
    # What a model writes is text, never part of the page.
    assert text(browser, "base-answer") == "<b>None</b> " + "long" * 100
    assert text(browser, "expert-answer") == "<b>0</b> " + "long" * 100
    assert "cut at its limit" in text(browser, "expert-about")
    tops = "[...document.querySelectorAll('section')].map(e => e.getBoundingClientRect().top)"
    first, second = browser.ask(tops)
    assert (first == second) == (width > 900)
    assert browser.ask(OVERFLOWING) == []
    choose = "(e => { e.value = 'birch'; e.dispatchEvent(new Event('change')) })"
    browser.ask(f"{choose}(document.getElementById('expert'))")
    assert "not measured" in text(browser, "score") and text(browser, "expert-name") == "birch"
    assert browser.complaints() == []
    assert all(url.startswith((site[0], "data:,")) for url in browser.requests())


def test_test_questions_are_chosen_by_their_tag(browser: Browser, site: tuple[str, Echo]) -> None:
    browser.look(site[0], width=420, scheme="light")
    until(lambda: browser.ask("!document.getElementById('questions').hidden"))
    assert options(browser, "tag") == ["anything (3)", "count (2; 5 of 8 right)", "order (1)"]
    assert options(browser, "question") == ["choose one", "How many?", "Which <b>one</b>?", "Why?"]
    select(browser, "tag", "order")
    assert options(browser, "question") == ["choose one", "Which <b>one</b>?"]
    select(browser, "question", "a table\\nWhich <b>one</b>?")
    assert browser.ask("document.getElementById('prompt').value") == "a table\nWhich <b>one</b>?"
    assert browser.ask(OVERFLOWING) == []
    # This expert's run has no rows here.
    select(browser, "expert", "birch")
    until(lambda: browser.ask("document.getElementById('questions').hidden"))
    assert browser.complaints() == []


def test_an_answer_is_never_under_another_experts_name(browser: Browser, site: tuple[str, Echo]) -> None:
    browser.look(site[0], width=1000, scheme="light")
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 2)
    asked = browser.ask("document.getElementById('expert').value")
    ask(browser, "wait")
    until(lambda: text(browser, "expert-answer"))
    assert text(browser, "expert-name") == asked
    assert browser.ask("document.getElementById('expert').disabled")
    browser.ask("document.getElementById('stop').click()")
    until(lambda: not browser.ask("document.getElementById('expert').disabled"))
    select(browser, "expert", "birch")
    assert text(browser, "expert-name") == "birch"
    assert text(browser, "expert-answer") == text(browser, "expert-about") == ""
    ask(browser, "hello")
    until(lambda: "2 tokens" in text(browser, "expert-about"))
    assert text(browser, "expert-answer").startswith("<b>1</b>") and text(browser, "expert-name") == "birch"


def test_a_server_that_has_ended_is_named(browser: Browser, site: tuple[str, Echo]) -> None:
    browser.look(site[0], width=1000, scheme="light")
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 2)
    browser.ask("window.fetch = async () => { throw new TypeError('Failed to fetch') }")
    ask(browser, "hello")
    until(lambda: text(browser, "expert-about") == "The server does not answer: has it ended?")


def options(browser: Browser, name: str) -> list[str]:
    found: list[str] = browser.ask(f"[...document.getElementById('{name}').options].map(e => e.textContent)")
    return found


def select(browser: Browser, name: str, value: str) -> None:
    change = f"(e => {{ e.value = '{value}'; e.dispatchEvent(new Event('change')) }})"
    browser.ask(f"{change}(document.getElementById('{name}'))")


@pytest.mark.parametrize("site", [{"router": Chooser()}], indirect=True)
def test_auto_shows_which_expert_was_chosen(browser: Browser, site: tuple[str, Echo]) -> None:
    browser.look(site[0], width=1000, scheme="light")
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 3)
    choose = "(e => { e.value = 'auto'; e.dispatchEvent(new Event('change')) })"
    browser.ask(f"{choose}(document.getElementById('expert'))")
    assert text(browser, "score").startswith("The router chooses")
    ask(browser, "hello")
    until(lambda: text(browser, "expert-name") == "auto: birch")
    assert text(browser, "expert-answer").startswith("<b>1</b>")


def test_an_answer_can_be_stopped_and_errors_are_shown(browser: Browser, site: tuple[str, Echo]) -> None:
    url, engine = site
    browser.look(url, width=1000, scheme="light")
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 2)
    ask(browser, "wait")
    until(lambda: text(browser, "base-answer") and text(browser, "expert-answer"))
    browser.ask("document.getElementById('stop').click()")
    until(lambda: engine.left == 2 and text(browser, "expert-about") == "stopped")
    ask(browser, "broken")
    until(lambda: "engine failed" in text(browser, "base-about"))
    until(lambda: not browser.ask("document.getElementById('send').disabled"))


@pytest.mark.parametrize("site", [{"token": TOKEN}], indirect=True)
def test_the_page_asks_for_the_token(browser: Browser, site: tuple[str, Echo]) -> None:
    browser.look(site[0], width=420, scheme="light")
    until(lambda: "token is missing" in text(browser, "problem"))
    assert browser.ask(SHOWN_TOKEN)
    enter = f"(e => {{ e.value = '{TOKEN}'; e.dispatchEvent(new Event('change')) }})"
    browser.ask(f"{enter}(document.getElementById('token'))")
    until(lambda: browser.ask("document.getElementById('expert').options.length") == 2)
    ask(browser, "hello")
    until(lambda: "2 tokens" in text(browser, "expert-about"))
