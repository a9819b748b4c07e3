"""The server itself, in front of an engine that does what a test needs."""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from export.test_gguf import tokenizer
from routing.routed_shelf import shelf_file, written_expert

from expert_worker.endpoint import connections
from expert_worker.endpoint import serve as serving
from expert_worker.endpoint.__main__ import main as serve_command
from expert_worker.endpoint.access import demand_token, read_token, readable_by_others
from expert_worker.endpoint.ending import Ending
from expert_worker.endpoint.engine import EngineFailed, Piece, PromptRefused, Question
from expert_worker.endpoint.listener import listen
from expert_worker.endpoint.metrics import Metrics
from expert_worker.endpoint.server import Limits, Server
from expert_worker.endpoint.shelf import Generation, Model
from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.routing.router import Examples, Router

TOKEN = "a-token-of-some-length"
CHAT = {"model": "ash", "messages": [{"role": "user", "content": "hi"}]}
LIMITS = Limits(parallel=1, queue=1, most_tokens=50, request_seconds=20.0)


class FakeEngine:
    """Says a letter, then waits until it may say the next."""

    name, context, ready = "fake", 100, True
    one_adapter_at_a_time = False

    def __init__(self, letters: str = "abc") -> None:
        self.letters, self.may_go_on, self.left, self.asked = letters, asyncio.Event(), 0, []

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def answer(self, question: Question) -> AsyncGenerator[Piece, None]:
        self.asked.append(question)
        try:
            for place, letter in enumerate(self.letters, 1):
                if letter == "!":
                    raise EngineFailed("it broke")
                if letter == "?":
                    raise PromptRefused("no vector for it")
                yield Piece(letter, place)
                await self.may_go_on.wait()
            yield Piece("", len(self.letters), "stop")
        finally:
            self.left += 1


def server(engine: Any, limits: Limits = LIMITS, token: str | None = None, log: Any = None) -> Server:
    generation = Generation(max_new_tokens=7, do_sample=True, temperature=0.5, top_k=9, stop_strings=("Q",))
    model = Model("ash", None, 0, PromptMaker(tokenizer()), generation, (2,))
    return Server(engine, {"ash": model}, limits, token=token, log=log or (lambda _: None))


def within(made: Callable[[], Server], test: Callable[[Server, Any], Awaitable[None]]) -> None:
    async def run() -> None:
        one = made()
        listening = TestServer(one.application())
        await listening.start_server()
        async with TestClient(listening) as client:
            await asyncio.wait_for(test(one, client), 20)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def test_only_prompts_that_the_model_read_are_counted() -> None:
    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]

        async def read(**changes: Any) -> int:
            await client.post("/v1/chat/completions", json={**CHAT, **changes})
            found = [line for line in one.metrics.text().splitlines() if 'kind="prompt"' in line]
            return sum(int(line.split()[-1]) for line in found)

        long = [{"role": "user", "content": "hi " * 200}]
        assert await read(max_tokens=51) == await read(messages=long) == 0
        one.engine.letters = "!"  # type: ignore[attr-defined]
        assert await read() == await read(stream=True) == 0
        one.engine.letters = "a"  # type: ignore[attr-defined]
        assert 0 < await read() < await read(stream=True)

    within(lambda: server(FakeEngine()), test)


def test_a_client_that_leaves_frees_the_slot() -> None:
    lines: list[str] = []

    async def test(one: Server, client: Any) -> None:
        for stream in (True, False):
            engine: FakeEngine = one.engine  # type: ignore[assignment]
            asked = asyncio.create_task(client.post("/v1/chat/completions", json={**CHAT, "stream": stream}))
            await until(lambda: one.metrics.running == 1)
            if stream:
                (await asked).close()
            else:
                asked.cancel()
            await until(lambda: one.metrics.running == 0)
            assert engine.left == len(engine.asked)
        await until(lambda: len(lines) == 2)
        assert all(" 499 " in line for line in lines), lines
        assert 'status="499"} 2' in one.metrics.text()

    within(lambda: server(FakeEngine(), log=lines.append), test)


def test_a_full_queue_is_refused_until_there_is_room() -> None:
    async def test(one: Server, client: Any) -> None:
        first, second = (
            asyncio.create_task(client.post("/v1/chat/completions", json=CHAT)) for _ in range(2)
        )
        await until(lambda: one.metrics.running == one.metrics.waiting == 1)
        refused = await client.post("/v1/chat/completions", json=CHAT)
        assert refused.status == 429 and refused.headers["Retry-After"].isdecimal()
        assert (await refused.json())["error"]["code"] == "queue_full"
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        for response in (await first, await second, await client.post("/v1/chat/completions", json=CHAT)):
            assert (await response.json())["choices"][0]["message"]["content"] == "abc"

    within(lambda: server(FakeEngine()), test)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("letters", "status", "code"),
    [("ab", 504, "timeout"), ("a!", 503, "engine_failed"), ("a?", 400, "unsupported_token")],
)
def test_an_answer_that_does_not_come_is_an_error(letters: str, status: int, code: str, stream: bool) -> None:
    async def test(one: Server, client: Any) -> None:
        if letters != "ab":
            one.engine.may_go_on.set()  # type: ignore[attr-defined]
        response = await client.post("/v1/chat/completions", json={**CHAT, "stream": stream})
        text = await response.text()
        # The status of a stream is sent with its first piece.
        assert response.status == (200 if stream else status)
        last = text.strip().rpartition("data: ")[2] if stream else text
        assert json.loads(last)["error"]["code"] == code and "[DONE]" not in text
        assert one.metrics.running == 0 and f'status="{status}"}} 1' in one.metrics.text()

    within(lambda: server(FakeEngine(letters), Limits(1, 1, 50, 0.3)), test)


def test_the_experts_own_settings_hold_where_a_request_has_none() -> None:
    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        await client.post("/v1/chat/completions", json=CHAT)
        changes = {"temperature": 0, "top_k": 3, "seed": 5, "max_tokens": 2, "stop": "Z"}
        changes |= {"presence_penalty": 0.0, "max_completion_tokens": 2}
        await client.post("/v1/chat/completions", json={**CHAT, **changes})
        usual, changed = one.engine.asked  # type: ignore[attr-defined]
        assert (usual.sampling.temperature, usual.sampling.top_k, usual.sampling.top_p) == (0.5, 9, 1.0)
        assert (usual.most_tokens, usual.stops, usual.ends, usual.adapter) == (7, ("Q",), (2,), 0)
        assert (changed.sampling.temperature, changed.sampling.top_k, changed.sampling.seed) == (0, 3, 5)
        assert (changed.most_tokens, changed.stops) == (2, ("Q", "Z"))

    within(lambda: server(FakeEngine()), test)


def test_questions_begin_with_the_system_message_of_the_training_rows() -> None:
    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        record = SimpleNamespace(system_message="Be brief.")
        expert: Any = SimpleNamespace(record=record, grammar=None, evaluation=None, adapter_config={})
        one.models["ash"] = replace(one.models["ash"], expert=expert)
        user, own = CHAT["messages"][0], {"role": "developer", "content": "Be long."}  # type: ignore[index]
        for messages in ([user], [own, user]):
            await client.post("/v1/chat/completions", json={**CHAT, "messages": messages})
        told = [{"role": "system", "content": text} for text in ("Be brief.", "Be long.")]
        prompts = [one.models["ash"].prompts.prompt({"messages": [it, user]}) for it in told]
        asked = one.engine.asked  # type: ignore[attr-defined]
        assert [question.prompt for question in asked] == [list(prompt.ids) for prompt in prompts]

    within(lambda: server(FakeEngine()), test)


SETS_NOTHING: tuple[dict[str, Any], ...] = (
    {"stream": None, "stop": None, "n": None, "stream_options": None, "metadata": None},
    {"tools": None, "logit_bias": None, "function_call": None, "response_format": None},
    {"stream": True, "stream_options": {"include_usage": None}},
    {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi", "cache_control": None}],
                "name": "Ann",
            },
            {"role": "assistant", "content": "ho", "refusal": None, "tool_calls": None, "audio": None},
            {"role": "user", "content": "hi"},
        ]
    },
)


def test_what_a_client_does_not_set_may_be_null() -> None:
    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        for more in SETS_NOTHING:
            response = await client.post("/v1/chat/completions", json={**CHAT, **more})
            assert response.status == 200, await response.text()
        plain = {"model": "ash", "prompt": "hi", "suffix": None, "best_of": None, "logprobs": None}
        assert (await client.post("/v1/completions", json=plain)).status == 200
        for more in ({"messages": None}, {"model": None}, {"tools": []}):
            assert (await client.post("/v1/chat/completions", json={**CHAT, **more})).status == 400

    within(lambda: server(FakeEngine()), test)


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
WRONG: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("completions", {"prompt": [1, 2, 3]}, "prompt", "token ids are not"),
    ("completions", {"prompt": ["a", "b"]}, "prompt", "several texts"),
    ("completions", {"prompt": "a", "stop": ["b", 1]}, "stop.1", "a valid string"),
    ("completions", {}, "prompt", "is missing"),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [IMAGE]}]},
        "messages.0.content.0.type",
        "text",
    ),
    ("chat/completions", {"messages": [{"role": "user"}]}, "messages.0.content", "is missing"),
    ("chat/completions", {**CHAT, "max_completion_tokens": 51}, "max_completion_tokens", "50"),
    ("chat/completions", {**CHAT, "max_tokens": 51}, "max_tokens", "50"),
    (
        "chat/completions",
        {**CHAT, "max_tokens": 2, "max_completion_tokens": 3},
        "max_completion_tokens",
        "send one",
    ),
    ("chat/completions", {**CHAT, "presence_penalty": -0.5}, "presence_penalty", "only 0 is supported"),
    ("chat/completions", {**CHAT, "frequency_penalty": 1}, "frequency_penalty", "only 0 is supported"),
    ("chat/completions", {**CHAT, "stop": list("abcde")}, "stop", "of stop: at most 4 stop texts"),
    (
        "chat/completions",
        {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        "response_format.json_schema.schema",
        "is missing",
    ),
)


def test_an_error_names_the_field_as_the_body_has_it() -> None:
    async def test(_: Server, client: Any) -> None:
        for path, body, param, words in WRONG:
            response = await client.post(f"/v1/{path}", json={"model": "ash", **body})
            error = (await response.json())["error"]
            assert (response.status, error["param"]) == (400, param), error
            assert words in error["message"] and "Value error" not in error["message"], error

    within(lambda: server(FakeEngine()), test)


def test_a_seed_of_64_bits_is_one_of_the_engines() -> None:
    seeds = (0, 2**32 - 2, 2**32 + 4, 2**63 - 1, -5)

    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        for seed in seeds:
            assert (await client.post("/v1/chat/completions", json={**CHAT, "seed": seed})).status == 200
        found = [asked.sampling.seed for asked in one.engine.asked]  # type: ignore[attr-defined]
        assert found[:2] == [0, 2**32 - 2] and all(0 <= seed < 2**32 - 1 for seed in found)
        assert len(set(found)) == len(seeds)
        assert (await client.post("/v1/chat/completions", json={**CHAT, "seed": 2**64})).status == 400

    within(lambda: server(FakeEngine()), test)


def test_with_a_token_nothing_else_is_answered_without_it() -> None:
    async def test(one: Server, client: Any) -> None:
        one.engine.may_go_on.set()  # type: ignore[attr-defined]
        for given in (None, "Bearer", "Bearer another-token-here", f"Basic {TOKEN}"):
            headers = {"Authorization": given} if given else {}
            for method, path in (
                ("POST", "/v1/chat/completions"),
                ("GET", "/v1/models"),
                ("GET", "/metrics"),
            ):
                response = await client.request(method, path, json=CHAT, headers=headers)
                assert response.status == 401, (given, path)
                assert (await response.json())["error"]["code"] == "invalid_api_key"
        assert (await client.get("/health")).status == 200 and not one.engine.asked  # type: ignore[attr-defined]
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "server.example"}
        assert (await client.post("/v1/chat/completions", json=CHAT, headers=headers)).status == 200

    within(lambda: server(FakeEngine(), token=TOKEN), test)


def test_a_token_that_is_not_utf_8_is_wrong() -> None:
    async def test(_: Server, client: Any) -> None:
        reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
        writer.write(b"GET /v1/models HTTP/1.0\r\nAuthorization: Bearer \xff" + TOKEN.encode() + b"\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()

    within(lambda: server(FakeEngine(), token=TOKEN), test)


def test_a_body_that_is_not_in_the_encoding_it_names_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def test(_: Server, client: Any) -> None:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        content = json.dumps(CHAT).encode()
        for _ in range(2):
            response = await client.post("/v1/chat/completions", data=content, headers=headers)
            error = (await response.json())["error"]
            assert (response.status, error["code"]) == (400, "invalid_body"), error
            assert error["message"] == "The body cannot be read: Can not decode content-encoding: gzip"
        assert "Unhandled" not in caplog.text

    within(lambda: server(FakeEngine()), test)


def test_other_machines_are_answered_with_a_token_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXPERT_SERVE_TOKEN", raising=False)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        demand_token(host, None)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        demand_token(host, TOKEN)
        with pytest.raises(BadInput, match="there is no token"):
            demand_token(host, None)
    assert read_token(None) is None
    monkeypatch.setenv("EXPERT_SERVE_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}2\n")
    assert read_token(file) == f"{TOKEN}2"
    for bad in ("", "short", "with spaces in the middle", "unprintable\x07characters", "ünïcödë-characters"):
        file.write_text(bad)
        with pytest.raises(BadInput, match="16 or more"):
            read_token(file)


async def stopped(number: int, grace: float, body: dict[str, Any]) -> tuple[int, int, str, Server]:
    """Exit code, and status and text of the one answer. Within a long grace the engine writes on."""
    said: list[str] = []
    one, listener = server(FakeEngine(), log=said.append), listen("127.0.0.1", 0)
    options = argparse.Namespace(grace=grace, json=False)
    running = asyncio.create_task(serving._run(one, listener, options, said.append))
    await until(lambda: any("try: curl" in line for line in said))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
    async with ClientSession() as client:
        asked = asyncio.create_task(client.post(url, json=body))
        await until(lambda: one.metrics.running == 1)
        os.kill(os.getpid(), number)
        await until(lambda: any(line.startswith("Stopping") for line in said))
        if grace > 1:
            one.engine.may_go_on.set()  # type: ignore[attr-defined]
        answer = await asked
        text = await answer.text()
        code = await asyncio.wait_for(running, 10)
    return code, answer.status, text, one


@asynccontextmanager
async def listening(
    said: list[str], engine: FakeEngine | None = None, kind: type[socket.socket] = socket.socket
) -> AsyncIterator[int]:
    """The port of a server that runs as the command runs it."""
    one = server(engine or FakeEngine(), log=said.append)
    listener = kind(fileno=listen("127.0.0.1", 0).detach())
    options = argparse.Namespace(grace=0.1, json=False)
    running = asyncio.create_task(serving._run(one, listener, options, said.append))
    await until(lambda: any("try: curl" in line for line in said))
    yield listener.getsockname()[1]
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(running, 10) == 0


def test_connections_without_a_request_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert serving.IDLE_SECONDS == 30
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.3)

    async def ask() -> None:
        async with listening([]) as port:
            for begun in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begun)
                assert await asyncio.wait_for(reader.read(), 10) == b""
                writer.close()

    asyncio.run(ask())


def test_for_another_connection_the_one_that_is_idle_longest_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_MOST", 3)
    said: list[str] = []
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def ask() -> None:
        async with listening(said) as port:
            taken = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            (first, to_first), *silent = taken
            # Its answer makes it the last that became idle.
            to_first.write(health)
            await asyncio.wait_for(first.readuntil(b"}"), 10)
            for reader, _ in silent:
                other = await asyncio.open_connection("127.0.0.1", port)
                taken.append(other)
                other[1].write(health)
                assert (await asyncio.wait_for(other[0].readuntil(b"}"), 10)).startswith(b"HTTP/1.1 200")
                assert await asyncio.wait_for(reader.read(), 10) == b""
            to_first.write(health)
            assert (await asyncio.wait_for(first.readuntil(b"}"), 10)).startswith(b"HTTP/1.1 200")
            for _, writer in taken:
                writer.close()

    asyncio.run(ask())
    assert [line for line in said if "connections" in line] == [
        "warning: 3 connections are open: those idle longest are closed for others"
    ]


def test_no_request_is_interrupted_for_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MOST", 1)
    said: list[str] = []

    async def ask() -> None:
        engine = FakeEngine()
        async with listening(said, engine) as port, ClientSession() as client:
            url = f"http://localhost:{port}/v1/chat/completions"
            asked = asyncio.create_task(client.post(url, json=CHAT))
            await until(lambda: bool(engine.asked))
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                assert await asyncio.wait_for(reader.read(), 10) == b""
                writer.close()
            engine.may_go_on.set()
            async with await asked as answer:
                assert (await answer.json())["choices"][0]["message"]["content"] == "abc"

    asyncio.run(ask())
    assert [line for line in said if "connections" in line] == [
        "warning: 1 requests are answered: more connections are closed at once"
    ]


def test_connections_that_cannot_be_taken_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    tries: list[bool] = []

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            tries.append(True)
            if len(tries) < 200:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def ask() -> None:
        async with (
            listening(said, kind=Full) as port,
            ClientSession() as client,
            client.get(f"http://localhost:{port}/health") as answer,
        ):
            assert answer.status == 200

    asyncio.run(ask())
    assert [line for line in said if "taken" in line] == [
        "warning: no connection can be taken: Too many open files"
    ]
    assert not caplog.text


@pytest.mark.skipif(os.name == "nt", reason="Windows limits no files")
def test_connections_are_half_of_the_files_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for files, most in ((256, 128), (1_048_576, 1000), (resource.RLIM_INFINITY, 1000), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connections.most_connections() == most


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_token_that_other_users_can_read_is_warned_about(tmp_path: Path) -> None:
    file = tmp_path / "my token"
    file.write_text(TOKEN)
    for mode, warned in ((0o600, False), (0o644, True), (0o640, True), (0o400, False)):
        file.chmod(mode)
        assert (readable_by_others(file) is not None) == warned
    file.chmod(0o644)
    assert (readable_by_others(file) or "").endswith(f"run `chmod 600 '{file}'`")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_running_answers_finish(number: int) -> None:
    code, status, text, _ = asyncio.run(stopped(number, 15.0, CHAT))
    assert (code, status) == (0, 200)
    assert json.loads(text)["choices"][0]["message"]["content"] == "abc"


@pytest.mark.parametrize("stream", [False, True])
def test_answers_that_the_grace_is_too_short_for_are_errors(stream: bool) -> None:
    code, status, text, one = asyncio.run(stopped(signal.SIGTERM, 0.2, {**CHAT, "stream": stream}))
    assert (code, status) == (0, 200 if stream else 503)
    last = text.strip().rpartition("data: ")[2]
    assert json.loads(last)["error"]["code"] == "server_stopped" and "[DONE]" not in text
    assert one.metrics.running == 0 and 'status="503"} 1' in one.metrics.text()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_before_the_server_is_ready_is_one_line(
    number: int, code: int, waits: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a model is loaded, and while an engine's process starts."""

    async def loading(*_: object) -> int:
        if waits:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
            await asyncio.sleep(60)
        os.kill(os.getpid(), number)
        time.sleep(60)
        return 0

    monkeypatch.setattr(serving, "serve", loading)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert serve_command(["final", "--home", "home", "--port", "0"]) == code
    assert capsys.readouterr().err == "Loading libraries\nerror: Stopped before the server was ready\n"
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_worker_without_the_extra_says_how_to_install_it() -> None:
    program = """
import runpy, sys
sys.modules["aiohttp"] = None
sys.argv[1:] = ["final", "--home", "home", "--json"]
runpy.run_module("expert_worker.endpoint", run_name="__main__")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    hint = "Install it with `pip install 'expert-worker[serve]'`."
    assert ended.returncode == 3
    assert ended.stderr == f"error: The HTTP server aiohttp is not installed\n  hint: {hint}\n"
    assert json.loads(ended.stdout)["error"]["code"] == "serve-missing"


def test_a_port_in_use_is_named_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the server that has it is still loading."""
    with listen("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        with pytest.raises(Failed, match=f"port {port}"):
            listen("127.0.0.1", port)
        assert serve_command(["absent", "--home", "home", "--port", str(port)]) == 1
    assert capsys.readouterr().err.startswith(f"error: Cannot listen on 127.0.0.1 port {port}")


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_a_host_that_is_not_this_machines_is_what_the_hint_is_about(host: str) -> None:
    with pytest.raises(Failed, match=f"Cannot listen on {host}") as refused:
        listen(host, 0)
    hint = refused.value.hint or ""
    assert hint.startswith("Name an address of this machine with --host") and "--port" not in hint


def test_a_token_file_that_is_not_there_is_refused_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        read_token(tmp_path / "none")
    assert (
        refused.value.message == f"Cannot read the token file {tmp_path / 'none'}: No such file or directory"
    )
    assert (refused.value.hint or "").startswith("Make one: ")
    (tmp_path / "bytes").write_bytes(b"\xff" * 20)
    with pytest.raises(BadInput, match="is not 16 or more printable ASCII characters"):
        read_token(tmp_path / "bytes")


def test_an_engine_that_keeps_ending_ends_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ending(SimpleNamespace):
        async def ended(self) -> int:
            return -6

        async def start(self) -> None:
            self.starts += 1

    monkeypatch.setattr(serving, "LlamaEngine", Ending)
    engine, stop = Ending(starts=0), asyncio.Event()
    with pytest.raises(Failed, match="ended 4 times"):
        asyncio.run(serving._keep(engine, stop, lambda _: None))  # type: ignore[arg-type]
    assert engine.starts == 3 and stop.is_set()


def test_text_is_held_back_while_it_may_begin_a_stop_text() -> None:
    ending = Ending(["END", "<|x|>"])
    assert [ending.add(piece) for piece in ("ab", "cE", "N", "x<", "|", "y", "E")] == [
        "ab",
        "c",
        "",
        "ENx",
        "",
        "<|y",
        "",
    ]
    assert ending.rest() == "E" and not ending.reached
    assert (ending.add("zE"), ending.add("NDmore"), ending.add("x")) == ("z", "", "")
    assert ending.reached and ending.rest() == ""


def named(name: str, adapter: int | None) -> Model:
    return Model(name, None, adapter, PromptMaker(tokenizer()), Generation(max_new_tokens=7), (2,))


def with_auto() -> Server:
    sql = [f"CREATE TABLE t{n} (id INT, price INT); Show the price above {n}." for n in range(30)]
    letters = [f"Schreibe einen Brief an Frau Weber wegen Rechnung {n}." for n in range(30)]
    router = Router.learn([Examples("sql", sql), Examples("letters", letters)])
    models = {"sql": named("sql", 0), "letters": named("letters", 1), "base": named("base", None)}
    engine = FakeEngine()
    engine.context = 1000
    engine.may_go_on.set()
    return Server(engine, models, LIMITS, router=router)  # type: ignore[arg-type]


def test_auto_is_the_expert_that_the_user_s_messages_are_for() -> None:
    cases = [
        ("CREATE TABLE cars (id INT, price INT); Show the price of cars.", "sql"),
        ("Schreibe einen Brief an Frau Ebert wegen der Lieferung.", "letters"),
        ("Who wrote Faust?", "base"),
    ]

    async def test(one: Server, client: Any) -> None:
        engine: FakeEngine = one.engine  # type: ignore[assignment]
        for prompt, name in cases:
            system = {"role": "system", "content": "CREATE TABLE cars (id INT, price INT); Show the price."}
            turns = [system, {"role": "user", "content": prompt}]
            chat = await client.post("/v1/chat/completions", json={"model": "auto", "messages": turns})
            assert (await chat.json())["model"] == name
            plain = await client.post("/v1/completions", json={"model": "auto", "prompt": prompt})
            assert (await plain.json())["model"] == name
            assert [asked.adapter for asked in engine.asked[-2:]] == [one.models[name].adapter] * 2
        listed = (await (await client.get("/v1/models")).json())["data"]
        assert [model["id"] for model in listed] == ["sql", "letters", "base", "auto"]
        assert (await client.get("/v1/models/auto")).status == 200

    within(with_auto, test)


def test_the_histogram_counts_every_request_of_a_model() -> None:
    metrics = Metrics()
    for status, seconds in ((200, 0.25), (200, 40.0), (499, 500.5)):
        metrics.finished("ash", status, 3, 2, seconds)
    metrics.finished("birch", 200, 1, 1, 0.2)
    found = [line for line in metrics.text().splitlines() if line.startswith("expert_request_seconds")]
    ash = dict(line.rsplit(" ", 1) for line in found if 'model="ash"' in line)
    buckets = [int(count) for name, count in ash.items() if "_bucket" in name]
    assert buckets == [0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3]
    assert ash['expert_request_seconds_sum{model="ash"}'] == "540.750000"
    assert ash['expert_request_seconds_count{model="ash"}'] == "3"
    assert 'expert_request_seconds_count{model="birch"} 1' in found


def test_without_a_router_there_is_no_auto() -> None:
    async def test(_: Server, client: Any) -> None:
        response = await client.post("/v1/chat/completions", json={**CHAT, "model": "auto"})
        assert response.status == 404
        assert (await client.get("/v1/models/auto")).status == 404

    within(lambda: server(FakeEngine()), test)


def routed_ash(folder: Path, prompts: Sequence[str]) -> Path:
    rows = [{"prompt": it, "completion": "x"} for it in prompts]
    return shelf_file(folder, written_expert(folder, "ash", rows))


def test_the_router_of_a_server_is_learnt(tmp_path: Path) -> None:
    lines: list[str] = []
    path = routed_ash(tmp_path, [f"Sort {n} words by length." for n in range(20)])
    router = serving._router(path, lines.append)
    assert router is not None
    assert router.route("Sort 99 words by length.").expert == "ash"
    assert lines[0].startswith("Learning the router")


def test_a_server_without_a_prompt_to_learn_from_has_no_auto(tmp_path: Path) -> None:
    lines: list[str] = []
    assert serving._router(routed_ash(tmp_path, [" "]), lines.append) is None
    assert lines[-1].startswith("warning: there is no model auto: ash has no row with a prompt")


def test_a_soft_prompt_leaves_less_room_for_prompt_and_answer() -> None:
    engine = FakeEngine("a")
    engine.may_go_on.set()

    def soft() -> Server:
        one = server(engine)
        expert = SimpleNamespace(adapter_config={"num_virtual_tokens": 60}, grammar=None, record=None)
        model: Any = replace(one.models["ash"], expert=expert)
        one.models = {"ash": model}
        return one

    async def test(_: Server, client: Any) -> None:
        async def asked(letters: int, most: int) -> tuple[int, str]:
            body = {"model": "ash", "prompt": "x" * letters, "max_tokens": most}
            async with client.post("/v1/completions", json=body) as response:
                return response.status, str(await response.json())

        assert (await asked(30, 10))[0] == 200
        assert "after this prompt: 10" in (await asked(30, 11))[1]
        status, told = await asked(40, 1)
        assert status == 400 and "prompt and answer have room for 40" in told

    within(soft, test)
