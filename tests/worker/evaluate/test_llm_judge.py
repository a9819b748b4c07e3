"""`judge` against a server on loopback: its requests, its replies, its retries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate import llm_judge
from expert_worker.evaluate.decode import Written
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.scored_rows import scored_rows
from expert_worker.evaluate.scorers import scorer_of
from expert_worker.evaluate.scores import judge_answers
from expert_worker.evaluate.verdict import Verdict
from expert_worker.events import Events
from expert_worker.plan import JudgeEndpoint

KEY = "hush-1234567890"
ROW = {"messages": [{"role": "user", "content": "2 + 2?"}], "completion": "four"}


class Server(ThreadingHTTPServer):
    """Replies to an answer with what `replies` has for it, one after the other; a number is a status."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: dict[str, list[Any]] = {}
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0
        self.hold = threading.Event()
        self.hold.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.loads(document["messages"][1]["content"])["answer"]
        with self.server.lock:
            self.server.requests.append((self.path, document, self.headers["Authorization"]))
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
            replies = self.server.replies.get(answer, ['{"score": 1}'])
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.server.hold.wait(5)
        with self.server.lock:
            self.server.at_once -= 1
        if isinstance(reply, tuple):
            self.send_response(reply[0])
            for name, value in reply[2:]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply[1])
            return
        if isinstance(reply, int):
            self.send_response(reply)
            self.send_header("Location", f"{self.server.url}/elsewhere")
            self.end_headers()
            self.wfile.write(f"no, {self.headers['Authorization']}".encode())
            return
        body = (
            reply
            if isinstance(reply, bytes)
            else json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(llm_judge, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("EXPERT_TEST_KEY", KEY)
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def judge(server: Server, **changes: Any) -> LlmJudge:
    given = {
        "url": server.url,
        "key_variable": "EXPERT_TEST_KEY",
        "timeout_seconds": 5,
        "concurrency": 2,
    } | changes
    return LlmJudge(JudgeEndpoint(**given), "a-model", None)


def test_a_key_is_not_sent_without_encryption_to_other_machines(server: Server) -> None:
    for url in (
        "http://judge.example.org/v1",
        "http://127.0.0.1.example.org/v1",
        "http://10.0.0.5:8000/v1",
        "http://[::1/v1",
    ):
        with pytest.raises(BadInput, match="without encryption"):
            judge(server, url=url)
        judge(server, url=url, key_variable=None)
    for url in ("https://judge.example.org/v1", "http://localhost:1/v1", "http://[::1]:8000/v1"):
        judge(server, url=url)


def test_replies_are_scores_or_counted_as_none(server: Server) -> None:
    replies = {
        "right": '{"score": 1, "reason": "same"}',
        "half": 'Here you are:\n```json\n{"score": 0.5, "reason": "nearly"}\n```',
        "prose": "I would give it 0.9.",
        "range": '{"score": 7}',
        "bool": '{"score": true}',
        "nan": '{"score": NaN}',
        "list": "[1]",
        "empty": "",
    }
    server.replies = {text: [reply] for text, reply in replies.items()}
    found = list(judge(server).verdicts([ROW] * len(replies), list(replies)))
    assert [verdict.score for verdict in found] == [1, 0.5, 0, 0, 0, 0, 0, 0]
    assert [verdict.failed for verdict in found] == [False, False, *[True] * 6]
    assert found[1].reason == "nearly"
    assert found[2].reason == "the judge gave no score from 0 to 1: 'I would give it 0.9.'"
    path, document, key = server.requests[0]
    assert (path, key) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert (document["model"], document["temperature"]) == ("a-model", 0)
    asked = json.loads(document["messages"][1]["content"])
    assert (asked["question"], asked["reference"]) == ("user: 2 + 2?", "four")


def test_calls_of_tools_are_shown_to_the_judge(server: Server) -> None:
    call = {"function": {"name": "weather", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "RAIN"},
    ]
    list(judge(server).verdicts([{"messages": turns, "completion": "Yes."}], ["Yes"]))
    (_, sent, _), *_ = server.requests
    asked = json.loads(sent["messages"][1]["content"])["question"]
    assert asked == f"user: Rain?\n\nassistant: {json.dumps([call])}\n\ntool: RAIN"


def test_a_busy_endpoint_is_asked_again_and_a_refusal_ends_the_scoring(server: Server) -> None:
    server.replies = {
        "busy": [503, 429, 500, '{"score": 0.25, "reason": "late"}'],
        "down": [503],
        "no": [401],
    }
    assert next(judge(server).verdicts([ROW], ["busy"])).score == 0.25
    assert len(server.requests) == 4
    with pytest.raises(Failed, match="failed 4 times: HTTP 503") as refused:
        list(judge(server).verdicts([ROW], ["down"]))
    assert refused.value.code == "judge-failed"
    server.requests.clear()
    with pytest.raises(Failed, match="cannot be used: HTTP 401") as refused:
        list(judge(server).verdicts([ROW], ["no"]))
    assert len(server.requests) == 1
    assert KEY not in refused.value.message
    assert refused.value.code == "judge-failed"


OPENAI = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
}


@pytest.mark.parametrize("refused", [["max_tokens", "temperature"], ["max_tokens"], ["temperature"]])
def test_settings_that_a_model_does_not_take_are_replaced_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def do_post(handler: Handler) -> None:
        document = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        asked.append(document)
        wrong = next((name for name in refused if name in document), None)
        body = (
            {"error": {"message": OPENAI[wrong], "param": wrong}}
            if wrong
            else {"choices": [{"message": {"content": '{"score": 1}'}}]}
        )
        handler.send_response(400 if wrong else 200)
        handler.end_headers()
        handler.wfile.write(json.dumps(body).encode())

    monkeypatch.setattr(Handler, "do_POST", do_post)
    found = list(judge(server, concurrency=1).verdicts([ROW] * 3, ["x", "y", "z"]))
    assert all(verdict.correct for verdict in found)
    assert len(asked) == 3 + len(refused), "later calls are made as the first one that was taken"
    taken = {"max_completion_tokens": 4_000} if "max_tokens" in refused else {"max_tokens": 300}
    taken |= {} if "temperature" in refused else {"temperature": 0}
    for document in asked[len(refused) :]:
        assert {name: it for name, it in document.items() if name not in ("model", "messages")} == taken


def test_settings_are_kept_where_others_are_refused_too(server: Server) -> None:
    long = b"max_tokens is too large for this context"
    server.replies = {"long": [(400, long)]}
    found = list(judge(server, concurrency=1).verdicts([ROW] * 2, ["long", "short"]))
    assert found[0].failed and "too large" in found[0].reason and found[1].correct
    assert [document.get("max_tokens") for _, document, _ in server.requests] == [300, None, 300, 300]


def limited(pause: str) -> tuple[Any, ...]:
    return 429, b"slow down", ("Retry-After", pause)


def test_an_endpoint_with_a_limit_is_asked_when_it_says(server: Server) -> None:
    server.replies = {"x": [*[429] * 6, limited("1"), '{"score": 1}']}
    began = time.monotonic()
    assert next(judge(server).verdicts([ROW], ["x"])).correct
    assert time.monotonic() - began >= 1 and len(server.requests) == 8


def test_a_limit_that_lasts_ends_the_scoring_at_once(server: Server) -> None:
    later = formatdate(time.time() + 3600, usegmt=True)
    server.replies = {"day": [limited("86400")], "date": [limited(later)]}
    for text, asks in (("day", "86,400"), ("date", "3,(599|600)")):
        began = time.monotonic()
        with pytest.raises(Failed, match=rf"failed once: HTTP 429: slow down \(it asks to wait {asks} s\)"):
            list(judge(server).verdicts([ROW], [text]))
        assert time.monotonic() - began < 5


def test_nothing_waits_for_an_endpoint_that_cannot_be_used(server: Server) -> None:
    server.replies = {"limit": [limited("60")], "no": [401]}
    began = time.monotonic()
    came: list[Verdict] = []
    with pytest.raises(Failed, match="HTTP 401"):
        came.extend(judge(server).verdicts([ROW] * 3, ["fine", "no", "limit"]))
    assert time.monotonic() - began < 5
    assert [verdict.score for verdict in came] == [1]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_answer_that_is_refused_is_not_scored_and_the_others_are(status: int, server: Server) -> None:
    server.replies = {"filtered": [status], "half": ['{"score": 0.5}']}
    texts = ["filtered", "half", "fine", "filtered"]
    found = list(judge(server, concurrency=1).verdicts([ROW] * 4, texts))
    assert [(verdict.score, verdict.failed) for verdict in found] == [
        (0, True),
        (0.5, False),
        (1, False),
        (0, True),
    ]
    assert found[0].reason == f"the judge refused this answer: HTTP {status}: no, Bearer ***"
    assert len(server.requests) == 5, "one more, which asks whether the endpoint refuses everything"
    # Alone, as where the other answers have been scored before.
    assert next(judge(server).verdicts([ROW], ["filtered"])).failed


def test_an_endpoint_that_refuses_everything_ends_the_scoring(server: Server) -> None:
    server.replies = {"x": [400], "4": [400]}
    with pytest.raises(Failed, match="cannot be used: HTTP 400") as refused:
        list(judge(server).verdicts([ROW], ["x"]))
    assert refused.value.code == "judge-failed" and KEY not in refused.value.message


def test_nothing_is_sent_to_where_a_redirect_leads(server: Server) -> None:
    server.replies = {"away": [307]}
    with pytest.raises(Failed, match="HTTP 307"):
        list(judge(server).verdicts([ROW], ["away"]))
    assert [path for path, _, _ in server.requests] == ["/v1/chat/completions"]


def test_other_bodies_and_silence_are_refused(server: Server) -> None:
    server.replies = {"html": [b"<html>"], "shape": [b'{"choices": []}'], "deep": [b"[" * 100_000]}
    for text in server.replies:
        with pytest.raises(Failed, match="not one of OpenAI's chat completions"):
            list(judge(server).verdicts([ROW], [text]))
    silent = judge(server)
    silent.endpoint = silent.endpoint.model_copy(update={"timeout_seconds": 0.05})
    server.hold.clear()
    with pytest.raises(Failed, match="failed 4 times: timed out"):
        list(silent.verdicts([ROW], ["slow"]))
    server.hold.set()
    with pytest.raises(Failed, match="failed 4 times"):
        list(judge(server, url="http://127.0.0.1:1/v1").verdicts([ROW], ["x"]))


@pytest.mark.parametrize("then", ["stalls", "breaks off"])
@pytest.mark.parametrize(("status", "tries"), [(503, 4), (429, 8), (401, 1)])
def test_a_status_whose_body_does_not_arrive_counts_as_the_status(
    status: int, tries: int, then: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def do_post(handler: Handler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        server.requests.append(("", {}, None))
        handler.send_response(status)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"64\r\nno")
        if then == "stalls":
            over.wait(5)

    monkeypatch.setattr(Handler, "do_POST", do_post)
    asked = judge(server)
    asked.endpoint = asked.endpoint.model_copy(update={"timeout_seconds": 0.2})
    said = f"failed {tries} times" if tries > 1 else "cannot be used"
    with pytest.raises(Failed, match=f"{said}: HTTP {status}$") as why:
        list(asked.verdicts([ROW], ["x"]))
    over.set()
    assert why.value.code == "judge-failed" and len(server.requests) == tries


def test_calls_at_the_same_time_are_bounded(server: Server) -> None:
    texts = [str(number) for number in range(12)]
    server.replies = {text: [json.dumps({"score": int(text) / 12})] for text in texts}
    found = list(judge(server, concurrency=3).verdicts([ROW] * 12, texts))
    assert [verdict.score for verdict in found] == [number / 12 for number in range(12)], (
        "in the order of the rows"
    )
    assert 1 <= server.most_at_once <= 3


def test_a_key_that_is_not_set_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPERT_TEST_KEY")
    with pytest.raises(BadInput, match="EXPERT_TEST_KEY, which the judge's key is read from, is not set"):
        judge(server)
    assert next(judge(server, key_variable=None).verdicts([ROW], ["x"])).correct
    assert server.requests[0][2] is None


def test_an_evaluation_by_a_judge(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"q{n}", "completion": f"a{n}"}) + "\n" for n in range(3)))
    endpoint = {"url": server.url, "key_variable": "EXPERT_TEST_KEY", "timeout_seconds": 5, "concurrency": 2}
    changes = {
        "recipe.data.test": [{"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}],
        "recipe.data.validation": [],
        "recipe.evaluation.scorer": "judge",
        "recipe.evaluation.scorer_settings": {"kind": "judge", "model": "m", "instructions": "Be strict."},
        "machine.judge": endpoint,
        "machine.paths.data": {"test.jsonl": str(path)},
    }
    plan = example_plan(tmp_path, changes)
    events, memory = Events.in_memory("evaluate")
    rows = scored_rows(plan, events).main
    assert not server.requests, "nothing is asked before the answers are there"
    (announced,) = [event.body for event in memory.events if event.body.type == "warning"]
    assert announced.code == "judge-cost"
    assert "will be asked at most 6 times" in announced.message and server.url in announced.message
    assert "and 1,800 received" in announced.message
    # The cost counts validation rows, which an installed expert does not have.
    lacking = [{"name": "gone.jsonl", "format": "jsonl", "weight": 1.0, "task": None}]
    (installed := tmp_path / "installed").mkdir()
    (installed / "expert.json").write_text("{}")
    gone = {
        "recipe.data.validation": lacking,
        "machine.paths.data": {"test.jsonl": str(path), "gone.jsonl": "gone"},
    }
    package = example_plan(tmp_path, {**changes, **gone, "machine.paths.expert_dir": str(installed)})
    assert scored_rows(package, events).main == rows
    server.replies = {"half": ['{"score": 0.5, "reason": "nearly"}'], "odd": ["?"]}
    scorer = scorer_of(plan)
    found = judge_answers(scorer, rows, [Written(text) for text in ("fine", "half", "odd")])
    assert [(answer.score, answer.unscored) for answer in found] == [(1, False), (0.5, False), (0, True)]
    assert all("Be strict." in document["messages"][0]["content"] for _, document, _ in server.requests)
    assert "url" not in json.dumps(scorer.document()) and KEY not in json.dumps(scorer.document())


def test_an_endpoint_on_this_machine_is_reached_without_the_proxy_of_the_environment(tmp_path: Path) -> None:
    """The proxy would read the key."""
    script = """
import os, sys
from expert_worker.evaluate import llm_judge
from expert_worker.plan import JudgeEndpoint
url = sys.argv[1]
endpoint = JudgeEndpoint(url=url, key_variable="JUDGE_KEY", timeout_seconds=5, concurrency=1)
judge = llm_judge.LlmJudge(endpoint, "m", None)
print(any(getattr(it, "proxies", {}) for it in judge._opener.handlers))
"""
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    environment |= {"JUDGE_KEY": KEY}

    def has_proxy(url: str) -> str:
        command = [sys.executable, "-c", script, url]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert has_proxy("http://127.0.0.1:8000/v1") == has_proxy("http://[::1]/v1") == "False\n"
    assert has_proxy("https://judge.example.org/v1") == "True\n"
