"""One server process on llama.cpp, asked as OpenAI's own client asks it."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shutil
import signal
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from expert_worker.endpoint.__main__ import main, parser
from expert_worker.endpoint.listener import listen
from expert_worker.endpoint.serve import serve
from expert_worker.errors import BadInput
from expert_worker.evaluate.subject import open_subject
from expert_worker.events import Events
from expert_worker.generate.stage import reply
from expert_worker.plan import Grammar
from expert_worker.run_record.expert import replace_grammar

from .tiny_shelf import (
    ANSWER_TOKENS,
    NAMES,
    Running,
    scored,
    served,
    tiny_base,
    tiny_expert,
    tiny_plan,
    until,
)

PROMPTS = [f"Say the number {number} in words" for number in range(6)]
SECRET = "a-private-sentence"
MODELS = (*NAMES, "base")


class Shelf:
    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, tiny_base(folder / "weights of tiny")
        self.finals = [
            tiny_expert(self.base, folder / name, name, 1 + seed, use_rslora=name == "birch")
            for seed, name in enumerate(NAMES)
        ]
        scored(self.finals[0], correct=30)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def server(shelf: Shelf) -> Iterator[Running]:
    with served(shelf.folder, shelf.finals, shelf.base, "--parallel", "3") as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0
        log = running.log.read_text()
        assert SECRET not in log and "Traceback" not in log


@pytest.fixture(scope="module")
def client(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def alone(client: openai.OpenAI) -> dict[tuple[str, str], str]:
    return {(model, prompt): ask(client, model, prompt) for model in MODELS for prompt in PROMPTS}


def ask(client: openai.OpenAI, model: str, prompt: str, **more: Any) -> str:
    found = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": prompt}], **more
    )
    return str(found.choices[0].message.content)


def post(server: Running, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=120)
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def metric(server: Running, line: str) -> float:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=120)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return next((float(it.split()[-1]) for it in text.splitlines() if it.startswith(line)), 0.0)


def test_answers_are_those_of_generate(shelf: Shelf, alone: dict[tuple[str, str], str]) -> None:
    for name, final in zip(NAMES, shelf.finals, strict=True):
        plan = tiny_plan(shelf.base, final.parent, name)
        events = Events.in_memory("generate")[0]
        subject = open_subject(plan, str(final), events)
        for prompt in PROMPTS:
            answer = reply(plan.recipe, events, subject, prompt)
            assert (alone[name, prompt], alone["base", prompt]) == (answer.adapter, answer.base)
    assert len({alone[name, PROMPTS[0]] for name in MODELS}) == len(MODELS)


def test_a_quantized_base_answers_with_the_grammar_of_its_prompt(shelf: Shelf, tmp_path: Path) -> None:
    final = tmp_path / NAMES[0] / "final"
    shutil.copytree(shelf.finals[0], final)
    replace_grammar(final, Grammar(kind="sql", name="sql", text="sql"))
    asked = "CREATE TABLE shop (town TEXT);\nwhich towns?"
    with served(tmp_path, [final], shelf.base, "--quantize", "q8_0") as running:
        body = json.dumps({"model": NAMES[0], "messages": [{"role": "user", "content": asked}]})
        status, found = post(running, "/v1/chat/completions", body.encode())
        assert status == 200 and found["usage"]["completion_tokens"] > 0
        assert re.match("select|WITH", found["choices"][0]["message"]["content"], re.IGNORECASE)
        assert running.ready["engine"] == "llama.cpp"
        assert "The base is held in q8_0: " in running.log.read_text()


def test_test_questions_elsewhere_are_shown_where_the_user_allows_their_folder(
    shelf: Shelf, tmp_path: Path
) -> None:
    """Those of the other expert are named in one line of the log."""
    finals, files = [], []
    for name, final in zip(NAMES[:2], shelf.finals[:2], strict=True):
        file = tmp_path / f"data of {name}" / "test.jsonl"
        file.parent.mkdir()
        turns = [{"role": "user", "content": f"Say {name}"}, {"role": "assistant", "content": "yes"}]
        file.write_text(json.dumps({"messages": turns}) + "\n")
        run = tmp_path / name / "weights" / "tiny"
        shutil.copytree(final, run / "final")
        (tmp_path / name / "manifest.json").write_text("{}")
        changes = {
            "machine.paths.expert_dir": str(tmp_path / name),
            "machine.paths.data": {"test.jsonl": str(file)},
            "recipe.data.test": [{"name": "test.jsonl", "format": "jsonl", "weight": 1.0}],
        }
        plan = tiny_plan(shelf.base, run, name, **changes)
        (run / "plan.json").write_text(plan.model_dump_json(by_alias=True, exclude_unset=True))
        finals.append(run / "final")
        files.append(file)
    with served(tmp_path, finals, shelf.base, "--allow-path", str(files[0].parent)) as running:
        shown = []
        for name in NAMES[:2]:
            with urllib.request.urlopen(f"{running.url}/v1/models/{name}/questions") as response:
                shown.append([it["prompt"] for it in json.load(response)["questions"]])
        assert shown == [[f"Say {NAMES[0]}"], []]
        (line,) = (it for it in running.log.read_text().splitlines() if "test questions" in it)
        assert str(files[1]) in line and f"--allow-path '{files[1].parent}' shows them" in line


def test_it_says_that_it_loads_libraries_before_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = [str(tmp_path / "absent"), "--home", str(tmp_path), "--port", "0"]
    assert main(absent) == 2
    assert capsys.readouterr().err.startswith("Loading libraries\nerror: ")
    assert main([*absent, "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (MemoryError("CUDA out of memory"), "out-of-memory", "CUDA_VISIBLE_DEVICES="),
        (ValueError("odd"), "unforeseen", None),
    ],
)
def test_an_unforeseen_error_is_one_message_and_its_traceback_is_in_the_log(
    error: Exception,
    code: str,
    hint: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr("expert_worker.endpoint.serve.serve", fails)
    assert main([str(tmp_path / "absent"), "--home", str(tmp_path), "--port", "0", "--json"]) == 1
    told = capsys.readouterr()
    problem = json.loads(told.out)["error"]
    assert problem["code"] == code and "Traceback" not in told.err
    assert hint is None or (hint in problem["hint"] and "batch_size" not in problem["hint"])
    (log,) = (tmp_path / "logs").iterdir()
    assert str(log) in problem["message"] and "Traceback" in log.read_text()


def test_a_quantized_base_is_refused_where_it_would_have_no_effect(shelf: Shelf, tmp_path: Path) -> None:
    """With `--engine transformers` the CLI refuses it."""
    dora = tiny_expert(shelf.base, tmp_path / "dora", "dora", 7, use_dora=True)
    words = [str(dora), "--home", str(tmp_path), "--base-folder", str(shelf.base), "--quantize", "q8_0"]
    said: list[str] = []
    with (
        listen("127.0.0.1", 0) as listener,
        (tmp_path / "log").open("w+b") as log,
        pytest.raises(BadInput, match="An adapter of the kind DoRA has no form in GGUF"),
    ):
        asyncio.run(serve(parser().parse_args(words), listener, None, log, said.append))
    assert said[0].startswith("Preparing 1 expert on ")


def test_a_system_message_a_limit_and_a_stop_text_change_the_answer(
    client: openai.OpenAI, alone: dict[tuple[str, str], str]
) -> None:
    whole = alone["ash", PROMPTS[0]]
    assert ask(client, "ash", PROMPTS[0], max_tokens=3) == whole[:3]
    assert ask(client, "ash", PROMPTS[0], stop=[whole[4]]) == whole[: whole.index(whole[4])]
    system = [{"role": "system", "content": "shout"}, {"role": "user", "content": PROMPTS[0]}]
    told: Any = client.chat.completions.create(model="ash", messages=system)  # type: ignore[arg-type]
    assert told.choices[0].message.content != whole
    warm = {ask(client, "ash", PROMPTS[0], temperature=2.0, seed=seed) for seed in (1, 1, 2, 3)}
    assert 1 < len(warm) <= 3


def test_a_stream_is_the_whole_answer_in_pieces(
    client: openai.OpenAI, alone: dict[tuple[str, str], str]
) -> None:
    chunks = list(
        client.chat.completions.create(
            model="cedar",
            messages=[{"role": "user", "content": PROMPTS[1]}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == alone["cedar", PROMPTS[1]] and len([text for text in texts if text]) > 3
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in ("length", "stop")
    assert chunks[-1].usage is not None and 0 < chunks[-1].usage.completion_tokens <= ANSWER_TOKENS


def test_responses_are_the_answers_of_chat(client: openai.OpenAI, alone: dict[tuple[str, str], str]) -> None:
    whole = client.responses.create(model="birch", input=PROMPTS[0])
    assert whole.output_text == alone["birch", PROMPTS[0]] and whole.usage is not None
    with client.responses.stream(model="birch", input=PROMPTS[0]) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert "".join(pieces) == whole.output_text and len(pieces) > 3
    cut = client.responses.create(model="birch", input=PROMPTS[0], max_output_tokens=3)
    assert cut.output_text == whole.output_text[:3] and cut.status == "incomplete"


def test_text_is_completed_without_a_template(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="birch", prompt="one two")
    pieces = client.completions.create(model="birch", prompt=["one two"], stream=True)
    assert "".join(chunk.choices[0].text for chunk in pieces) == whole.choices[0].text
    assert whole.usage is not None and whole.usage.prompt_tokens == 7


def test_models_have_the_scores_that_were_measured(client: openai.OpenAI) -> None:
    found = {model.id: model.model_dump() for model in client.models.list()}
    assert list(found) == list(MODELS)
    assert found["ash"]["score"]["adapter"]["accuracy"] == 0.75
    assert found["birch"]["score"] is None and found["birch"]["adapter"] == "rslora"
    assert client.models.retrieve("cedar").id == "cedar"


def test_an_unknown_model_is_refused_with_the_names(client: openai.OpenAI) -> None:
    for call in (lambda: ask(client, "oak", "hi"), lambda: client.models.retrieve("oak")):
        with pytest.raises(openai.NotFoundError, match="ash, birch, cedar, base") as refused:
            call()
        assert refused.value.code == "model_not_found" and refused.value.param == "model"


CHAT = {"model": "ash", "messages": [{"role": "user", "content": "hi"}]}
BAD: dict[str, tuple[bytes, int, str]] = {
    "not-json": (b'{"model": ', 400, "invalid_json"),
    "deep": (b"[" * 100_000, 400, "invalid_json"),
    "binary": (bytes(range(256)), 400, "invalid_json"),
    "no-object": (b"[]", 400, "invalid_value"),
    "surrogate": (
        rb'{"model": "ash", "messages": [{"role": "user", "content": "\ud800"}]}',
        400,
        "invalid_json",
    ),
    "no-messages": (b'{"model": "ash", "messages": []}', 400, "invalid_value"),
    "missing": (b'{"messages": []}', 400, "missing_field"),
    "tools": (json.dumps({**CHAT, "tools": []}).encode(), 400, "unsupported_field"),
    "several": (json.dumps({**CHAT, "n": 2}).encode(), 400, "invalid_value"),
    "not-finite": (json.dumps({**CHAT, "temperature": float("nan")}).encode(), 400, "invalid_value"),
    "large-top-k": (json.dumps({**CHAT, "top_k": 10**20}).encode(), 400, "invalid_value"),
    "no-tokens": (json.dumps({**CHAT, "max_tokens": 0}).encode(), 400, "invalid_value"),
    "longer": (json.dumps({**CHAT, "max_tokens": 600}).encode(), 400, "context_length_exceeded"),
    "long-prompt": (
        json.dumps({**CHAT, "messages": [{"role": "user", "content": f"{SECRET} " * 100}]}).encode(),
        400,
        "context_length_exceeded",
    ),
    "large": (b" " * (1 << 20) + b"{}", 413, "body_too_large"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_answered_is_refused_in_openais_shape(name: str, server: Running) -> None:
    body, status, code = BAD[name]
    found, document = post(server, "/v1/chat/completions", body)
    assert (found, document["error"]["code"]) == (status, code), document
    assert set(document["error"]) == {"message", "type", "param", "code"}


def test_other_paths_methods_types_and_hosts_are_refused(server: Running) -> None:
    good = json.dumps(CHAT).encode()
    for path, headers, status in (
        ("/v1/embeddings", {}, 404),
        ("/v1/models", {}, 405),
        ("/v1/chat/completions", {"Content-Type": "text/plain"}, 415),
        ("/v1/chat/completions", {"Host": "rebound.example"}, 403),
    ):
        found, document = post(server, path, good, **headers)
        assert found == status and document["error"]["code"], path
    assert post(server, "/v1/chat/completions", good)[0] == 200


def test_bytes_that_are_not_http_are_refused_without_a_traceback(server: Running) -> None:
    place = urllib.parse.urlsplit(server.url)
    assert place.hostname and place.port
    for content in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"no method\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\xff" * 70_000,
    ):
        with socket.create_connection((place.hostname, place.port), 10) as raw, suppress(ConnectionError):
            raw.sendall(content)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    assert "Traceback" not in server.log.read_text()


def test_a_stream_that_nobody_reads_any_more_leaves_no_traceback(server: Running) -> None:
    body = json.dumps({**CHAT, "stream": True, "max_tokens": 400}).encode()
    for _ in range(10):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=120)
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        connection.getresponse().read(40)
        connection.close()
    until(lambda: metric(server, "expert_requests_running") == 0)
    assert "Traceback" not in server.log.read_text()


def test_mixed_requests_at_once_get_the_answers_of_single_ones(
    client: openai.OpenAI, server: Running, alone: dict[tuple[str, str], str], every_trial: bool
) -> None:
    count = 200 if every_trial else 40
    wanted = [(MODELS[n % len(MODELS)], PROMPTS[n * 7 % len(PROMPTS)]) for n in range(count)]

    def one(number: int) -> tuple[tuple[str, str], str]:
        question = wanted[number]
        if number % 5 == 4:  # Left in the middle.
            stream = client.chat.completions.create(
                model=question[0], messages=[{"role": "user", "content": question[1]}], stream=True
            )
            next(iter(stream))
            stream.close()
            return question, alone[question]
        return question, ask(client, *question)

    with ThreadPoolExecutor(8) as pool:
        for question, answer in pool.map(one, range(count)):
            assert answer == alone[question], question
    until(lambda: metric(server, "expert_requests_running") == 0)
    assert metric(server, 'expert_requests_total{model="ash",status="200"}') >= count / len(MODELS) - 10


def test_an_engine_that_was_killed_is_started_again(
    client: openai.OpenAI, server: Running, alone: dict[tuple[str, str], str]
) -> None:
    (engine,) = psutil.Process(server.process.pid).children()
    engine.kill()

    def healthy() -> bool:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=120)
        connection.request("GET", "/health")
        status = connection.getresponse().status
        connection.close()
        return status == 200

    # Until then the engine that was killed counts as healthy.
    until(lambda: "starting it again" in server.log.read_text())
    until(healthy)
    assert psutil.Process(server.process.pid).children() not in ([], [engine])
    assert ask(client, "cedar", PROMPTS[2]) == alone["cedar", PROMPTS[2]]
