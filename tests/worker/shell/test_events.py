import json
import math
import os
import threading
import time

import pytest

from expert_worker import heartbeat
from expert_worker.events import Events
from expert_worker.events.sinks import Memory, Record

PROGRESS = {
    "total_steps": 9,
    "epoch": 0.5,
    "loss": 1.25,
    "lr": 5e-5,
    "tokens": 10,
    "supervised_tokens": 4,
    "tokens_per_second": 3.0,
    "seconds": 0.1,
    "data_wait": 0.0,
}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_started_is_the_first_line_of_the_record_whatever_was_said_before(tmp_path):
    path = tmp_path / "events.jsonl"
    events = Events([], Record(path), task="train", recipe_digest="ab")
    events.stage("load base")
    events.warning("w", "said early")
    assert path.read_text() == ""
    events.begin(resumed_from=7)
    events.progress(step=8, **PROGRESS)
    types = [line["body"]["type"] for line in lines_of(path)]
    assert types == ["started", "stage", "warning", "progress"]
    assert lines_of(path)[0]["body"]["resumed_from"] == 7


def test_attempts_are_counted_and_a_torn_last_line_is_ended(tmp_path):
    path = tmp_path / "events.jsonl"
    first = Events([], Record(path), task="train")
    first.begin()
    first.progress(step=3, **PROGRESS)
    first.close()
    with path.open("a") as file:
        file.write('{"time": 1.0, "attempt": 1, "bo')
    record = Record(path)
    assert (record.past.attempts, record.past.last_step) == (1, 3)
    second = Events([], record, task="train")
    second.begin(resumed_from=2)
    assert [line["attempt"] for line in lines_of(path)] == [1, 1, 2]


@pytest.mark.parametrize("taken", [0, 7])
def test_what_a_full_disk_did_not_take_is_written_once_there_is_room(tmp_path, monkeypatch, taken):
    path, memory = tmp_path / "events.jsonl", Memory()
    events = Events([memory], Record(path), task="train")
    events.begin()
    events.progress(step=1, **PROGRESS)
    write, calls = os.write, []

    def full(descriptor, data):
        calls.append(len(data))
        if taken and len(calls) == 1:
            return write(descriptor, bytes(data[:taken]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for step in (2, 3, 4):
        events.progress(step=step, **PROGRESS)
    monkeypatch.undo()
    events.progress(step=5, **PROGRESS)
    bodies = [line["body"] for line in lines_of(path)]
    assert [body["step"] for body in bodies if body["type"] == "progress"] == [1, 2, 3, 4, 5]
    (warned,) = [event.body for event in memory.events if event.body.type == "warning"]
    assert warned.code == "events-not-recorded" and warned.hint.startswith("Free some space")
    monkeypatch.setattr(os, "write", full)
    events.progress(step=6, **PROGRESS)
    monkeypatch.undo()
    events.close()
    assert [body["step"] for body in (line["body"] for line in lines_of(path)) if "loss" in body][-1] == 6


def test_of_a_disk_that_stays_full_the_newest_lines_are_lost_and_never_the_end(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    events = Events([], Record(path), task="train")
    events.begin()
    monkeypatch.setattr("expert_worker.events.sinks._MOST_UNWRITTEN", 2000)
    write = os.write

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for step in range(1, 50):
        events.progress(step=step, **PROGRESS)
    monkeypatch.setattr(os, "write", write)
    events.finished({"ok": True})
    bodies = [line["body"] for line in lines_of(path)]
    steps = [body["step"] for body in bodies if body["type"] == "progress"]
    assert steps == list(range(1, len(steps) + 1)) and 2 < len(steps) < 20
    assert bodies[-1]["type"] == "finished"


def test_a_whole_last_line_without_a_newline_is_kept(tmp_path):
    path = tmp_path / "events.jsonl"
    Events([], Record(path), task="train").begin()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    Events([], Record(path), task="train").begin()
    assert [line["attempt"] for line in lines_of(path)] == [1, 2]


def test_an_attempt_that_fails_before_it_began_drops_no_earlier_step(tmp_path):
    path = tmp_path / "events.jsonl"
    first = Events([], Record(path), task="train")
    first.begin()
    first.progress(step=5, **PROGRESS)
    second = Events([], Record(path), task="train")
    second.finished({})
    assert lines_of(path)[-2]["body"]["resumed_from"] == 5


def test_heartbeats_and_streamed_text_are_live_only(tmp_path):
    path = tmp_path / "events.jsonl"
    live, memory = Events.in_memory()
    live.heartbeat()
    events = Events([memory], Record(path), task="train")
    events.begin()
    events.heartbeat()
    events.text("base", "hello")
    assert [line["body"]["type"] for line in lines_of(path)] == ["started"]
    assert [event.body.type for event in memory.events] == ["heartbeat", "started", "heartbeat", "text"]


def test_lines_of_many_threads_never_mix(tmp_path):
    path = tmp_path / "events.jsonl"
    events = Events([], Record(path), task="train")
    events.begin()

    def speak():
        for index in range(200):
            events.applied("key", "x" * index)

    threads = [threading.Thread(target=speak) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines_of(path)) == 801


def test_numbers_that_json_cannot_hold_do_not_reach_a_line():
    events, memory = Events.in_memory()
    events.progress(step=1, grad_norm=math.nan, eta=math.inf, **PROGRESS)
    assert memory.events[-1].body.grad_norm is None
    events.evaluated(1, {"loss": math.nan, "exact": 0.5}, 0.1)
    assert [event.body.type for event in memory.events[-2:]] == ["warning", "evaluated"]
    assert memory.events[-1].body.metrics == {"exact": 0.5}


def test_accumulating_is_throttled_by_the_clock():
    now = [0.0]
    _, memory = Events.in_memory()
    events = Events([memory], clock=lambda: now[0])
    for micro in range(100):
        now[0] += 0.1
        events.accumulating(1, micro, 100)
    assert 15 <= len(memory.events) <= 25
    assert events.ticks == 100


def test_a_record_that_cannot_be_written_becomes_a_warning(tmp_path):
    class Full(Record):
        def write(self, event, line):
            raise OSError(28, "No space left on device")

    _, memory = Events.in_memory()
    events = Events([memory], Full(tmp_path / "events.jsonl"), task="train")
    events.begin()
    events.progress(step=1, **PROGRESS)
    assert [event.body.type for event in memory.events] == ["started", "warning", "progress"]


def test_the_first_signal_asks_and_the_second_interrupts():
    events, _ = Events.in_memory()
    assert not events.stop_requested
    events.stop._receive(15, None)
    assert events.stop_requested
    assert events.stop.interrupted("saved").exit_code == 143
    with pytest.raises(Exception, match="at once") as caught:
        events.stop._receive(2, None)
    assert caught.value.exit_code == 130


def test_storage_that_does_not_answer_is_named_while_the_worker_beats(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    answers = threading.Event()
    memory = Memory()
    events = Events([memory], Record(path), task="train")
    events.begin()
    synced = os.fsync

    def fsync(handle: int) -> None:
        answers.wait(30)
        synced(handle)

    def types() -> list[str]:
        return [event.body.type for event in memory.events]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(heartbeat, "_STORAGE_SECONDS", 0.05)
    with heartbeat.heartbeat(events, 0.01):
        saving = threading.Thread(target=events.checkpoint, args=(4, tmp_path, 1, 0.1))
        saving.start()
        while "warning" not in types() or "heartbeat" not in types()[types().index("warning") :]:
            time.sleep(0.01)
        answers.set()
        saving.join(30)
    warnings = [event.body for event in memory.events if event.body.type == "warning"]
    assert [warning.code for warning in warnings] == ["storage-slow"]
    assert warnings[0].message.startswith(f"{path} has not answered for ")
    assert [line["body"]["type"] for line in lines_of(path)] == ["started", "checkpoint"]


def test_a_task_that_lost_its_lease_appends_to_no_record(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"

    def attempt(token: int) -> Events:
        folder = tmp_path / "lease" / str(token)
        folder.mkdir(parents=True)
        monkeypatch.setenv("EXPERT_LEASE", str(folder))
        events = Events([], Record(path), task="train", recipe_digest="ab")
        events.begin()
        return events

    paused = attempt(1)
    paused.progress(step=1, **PROGRESS)
    (tmp_path / "lease" / "1").rmdir()
    taken = attempt(2)
    paused.progress(step=2, **PROGRESS)
    taken.progress(step=3, **PROGRESS)
    paused.progress(step=4, **PROGRESS)
    found = [(line["attempt"], line["body"]["type"], line["body"].get("step")) for line in lines_of(path)]
    assert found == [(1, "started", None), (1, "progress", 1), (2, "started", None), (2, "progress", 3)]
