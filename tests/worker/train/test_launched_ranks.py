"""The ranks of a launcher: how they meet, what they compare, and how one notices that another is gone."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from plans import example_plan
from torch.distributed import HashStore

from expert_worker.errors import Failed, Interrupted
from expert_worker.events import Events
from expert_worker.process.rank import has_leader, is_main_process, this_rank
from expert_worker.stop import Stop
from expert_worker.train import distributed, launched
from expert_worker.train.agreement import difference
from expert_worker.train.distributed import DistContext

CODE = {"version": "0.1.0", "worker": "w" * 64, "native": "n" * 64}
FACTS: dict[str, Any] = {
    "contract": 1,
    "torch": "2.15.0",
    "device": "cpu",
    "recipe_digest": "r",
    "recipe": {"optimizer": {"learning_rate": 0.01, "name": "adamw_torch_fused"}, "seed": 1},
    "inputs": {"code": CODE, "data": {"train.jsonl": "d"}, "base": "b", "tokenizer": "t"},
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_BEAT": 0.01, "_SILENCE": 0.3, "_LAST_WORDS": 0.01}.items():
        monkeypatch.setattr(launched, name, value)


def test_ranks_that_are_alike_have_no_difference():
    assert difference(FACTS, FACTS) is None
    unknown = {**FACTS, "inputs": {**FACTS["inputs"], "base": None}}
    assert difference(FACTS, unknown) is None and difference(unknown, FACTS) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {
                "recipe_digest": "s",
                "recipe": {"optimizer": {"learning_rate": 0.02, "name": "adamw_torch_fused"}, "seed": 1},
            },
            ("another manifest", "recipe.optimizer.learning_rate is 0.02, and 0.01 on rank 0"),
        ),
        (
            {"inputs": {**FACTS["inputs"], "data": {"train.jsonl": "e"}}},
            ("other data", 'data.train.jsonl is "e", and "d" on rank 0'),
        ),
        ({"inputs": {**FACTS["inputs"], "base": "c"}}, ("another base", 'base is "c"')),
        (
            {"inputs": {**FACTS["inputs"], "code": {**CODE, "version": "0.2.0"}}},
            ("another version of expert-cli", 'code.version is "0.2.0"'),
        ),
        ({"device": "cuda"}, ("another kind of device", 'device is "cuda", and "cpu" on rank 0')),
        ({"torch": "2.14.0"}, ("another version of torch", '"2.14.0"')),
    ],
)
def test_a_difference_is_named(changes, words):
    found = difference(FACTS, {**FACTS, **changes})
    assert found is not None and all(word in found for word in words), found


def rounds(*parts: launched.Gathering | launched.Join) -> list[str | None]:
    """What each says once they have taken turns."""
    for _ in range(3):
        names = [part.round() for part in parts]
    return names


def test_ranks_that_start_again_meet_only_each_other():
    meeting = launched.Meeting(HashStore(), 3)
    first = rounds(*(parts := [launched.Gathering(meeting), *(launched.Join(meeting, it) for it in (1, 2))]))
    assert first[0] and first == [first[0]] * 3 == rounds(*parts)

    # As agents of torchrun start them, in any order, with everything of before in the store.
    early = launched.Join(meeting, 1)
    assert early.round() is None
    gathering = launched.Gathering(meeting)
    # Rank 2 of before has ended: it is named, and does not answer.
    assert rounds(gathering, early) == [None, None] and meeting.absent(gathering.group()) == [2]
    late = launched.Join(meeting, 2)
    second = rounds(gathering, early, late)
    assert second[0] not in (None, first[0]) and second == [second[0]] * 3

    # With fewer ranks.
    fewer = launched.Meeting(meeting.store, 2)
    third = rounds(launched.Join(fewer, 1), launched.Gathering(fewer))
    assert third[0] not in (None, first[0], second[0]) and third == [third[0]] * 2


def test_a_rank_that_waits_reads_why_rank_0_refuses():
    meeting = launched.Meeting(HashStore(), 3)
    said = {"exit": 5, "code": "locked", "message": "another run holds it", "hint": "wait"}
    refusing, waiting = launched.Gathering(meeting, said), launched.Join(meeting, 1)
    assert refusing.round() is None
    with pytest.raises(launched.Refused) as refused:
        waiting.round()
    assert (refused.value.exit_code, refused.value.code, refused.value.hint) == (5, "locked", "wait")
    assert refused.value.message == "Rank 0 of 3 refused to start: another run holds it"
    assert refusing.round() is None and meeting.absent(refusing.group()) == [2]
    # A refusal is of one attempt.
    assert len({*rounds(launched.Gathering(meeting), *(launched.Join(meeting, it) for it in (1, 2)))}) == 1


def watch(store: Any, events: Events, ended: threading.Event) -> launched.Watch:
    return launched.Watch(0, 2, events, store, end=lambda code: ended.set())


def test_a_rank_without_a_sign_of_life_ends_this_one(quick):
    events, said = Events.in_memory()
    ended = threading.Event()
    with watch(HashStore(), events, ended):
        assert ended.wait(20)
    failed = said.events[-1].body
    assert failed.code == "process-lost" and "Rank 1 of 2 has shown no sign of life" in failed.message


def test_a_rank_that_failed_ends_this_one_at_once(quick, monkeypatch):
    monkeypatch.setattr(launched, "_SILENCE", 3600.0)
    events, said = Events.in_memory()
    ended, store = threading.Event(), HashStore()
    with pytest.raises(ValueError), launched.Watch(1, 2, events, store):
        raise ValueError
    with watch(store, events, ended):
        assert ended.wait(20)
    assert "Rank 1 of 2 has failed" in said.events[-1].body.message


def test_a_rank_that_lives_or_has_left_ends_nobody(quick):
    events, said = Events.in_memory()
    ended, store = threading.Event(), HashStore()
    with watch(store, events, ended):
        with launched.Watch(1, 2, events, store):
            assert not ended.wait(0.6)
        assert not ended.wait(0.6)
    assert not said.events


def test_a_rank_that_has_left_is_not_watched_and_watches_nobody(quick, monkeypatch):
    monkeypatch.setattr(launched, "_SILENCE", 3600.0)
    events, said = Events.in_memory()
    ended, store = threading.Event(), HashStore()
    with watch(store, events, ended) as first:
        with pytest.raises(Interrupted), launched.Watch(1, 2, events, store) as other:
            other.leave()
            raise Interrupted("Stopped after step 3; the checkpoint is saved")
        assert not ended.wait(0.6)
        first.leave()
        with pytest.raises(ValueError), launched.Watch(1, 2, events, store):
            raise ValueError
        assert not ended.wait(0.6)
    assert not said.events


def test_a_store_that_is_gone_ends_this_rank(quick):
    class Gone:
        def set(self, key: str, value: str) -> None:
            if value not in ("0", "left"):
                raise RuntimeError("Connection reset by peer")

    events, said = Events.in_memory()
    ended = threading.Event()
    with watch(Gone(), events, ended):
        assert ended.wait(20)
    assert "The store of the ranks is gone: Connection reset" in said.events[-1].body.message


def test_ranks_meet_at_the_port_that_rank_0_opens(monkeypatch, unused_port):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(unused_port))
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    stores: dict[int, Any] = {}

    def come(number: int) -> None:
        stores[number] = launched.meet(number, 2, Events())

    early = threading.Thread(target=come, args=(1,))
    early.start()
    come(0)
    early.join(30)
    stores[0].set("word", "seen")
    assert stores[1].get("word") == b"seen"


def test_a_rank_that_waits_alone_can_be_stopped_and_gives_up(monkeypatch, unused_port):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(unused_port))
    monkeypatch.setattr(launched, "_SOON", 0.1)
    monkeypatch.setenv("EXPERT_RANK_TIMEOUT", "0.7")
    events, said = Events.in_memory()
    with pytest.raises(Failed, match=r"rank 1 did not come within 0\.7 s \(EXPERT_RANK_TIMEOUT\)") as refused:
        launched.meet(0, 2, events)
    assert refused.value.code == "processes-cannot-join"
    details = [event.body.detail for event in said.events if event.body.type == "stage"]
    assert details == ["waits for rank 1, 0.7 s at most (EXPERT_RANK_TIMEOUT)"]
    events.stop.request(terminated=True)
    with pytest.raises(Interrupted):
        launched.meet(1, 2, events)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def test_without_a_leader_nobody_waits_for_its_word(monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(distributed.time, "sleep", slept.append)

    def breaks() -> None:
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setenv("EXPERT_RANK", "1")
    for meeting, waits in (("env://", 0), ("/tmp/meeting", 1)):
        monkeypatch.setenv("EXPERT_RENDEZVOUS", meeting)
        assert has_leader() == bool(waits) and not is_main_process() and this_rank() is not None
        with pytest.raises(Failed, match="Another process of this run is gone") as lost:
            distributed._carefully(breaks)
        assert lost.value.code == "process-lost" and len(slept) == waits


def test_a_launchers_rank_has_a_plan_of_its_device_and_threads(tmp_path):
    plan = example_plan(tmp_path, {"machine.threads.compute": 8})
    rank = DistContext(3, 4, launched=True)
    assert rank.threads(plan.machine) == 8 and rank.offset == 0
    assert DistContext(3, 4).threads(plan.machine) == 2 and DistContext(3, 4).offset == 3


def test_a_stop_that_another_rank_asked_for_does_not_count_as_the_first_signal():
    stop = Stop()
    stop.request(terminated=True)
    stop._receive(15, None)
    with pytest.raises(Interrupted):
        stop._receive(15, None)


def test_a_meeting_on_this_machine_needs_no_network(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    launched._prefer_loopback("10.0.0.1")
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def test_a_signal_during_an_agreement_counts_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, dist = Stop(), DistContext(number=1, size=2)

    def sum_of_both(_: DistContext, *numbers: float) -> list[float]:
        stop.request(terminated=True)
        return list(numbers)

    monkeypatch.setattr(DistContext, "sum", sum_of_both)
    assert [dist.agrees_to_stop(stop), dist.agrees_to_stop(stop)] == [False, True]
