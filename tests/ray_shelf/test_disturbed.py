"""A shelf of four experts on a cluster that loses nodes, its head and its command leaves what an undisturbed
shelf leaves."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from nodes import FOUR, FOURTH, HEAD, SECOND, THIRD, Cluster, Shelf, wait_for

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="each node has an address of the loopback"),
]
SAVED = 20
LONG = {"max_steps": 900, "save_steps": SAVED, "evaluation_strategy": "no", "save_total_limit": 3}
EXPIRES = 30  # Seconds; a task that lives renews its lease every five.
# A round is mostly the start of Ray and of four workers.
SHORT = {**LONG, "max_steps": 160}
# What a disturbance costs: the steps since the newest checkpoint, which is written meanwhile, and those of a
# paused node that has not noticed yet that it lost its lease.
REPEATED = 3 * SAVED
ROUNDS = int(os.environ.get("EXPERT_RAY_ROUNDS", "3"))


@pytest.fixture(scope="module")
def undisturbed(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("undisturbed"), cli, FOUR, **LONG)
    shelf.finish()
    return shelf


@pytest.fixture(scope="module")
def short(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("short"), cli, FOUR, **SHORT)
    shelf.finish()
    return shelf


def start(shelf: Shelf, cluster: Cluster) -> subprocess.Popen[bytes]:
    return shelf.start("--engine", "ray", "--ray-address", cluster.address)


def is_open(shelf: Shelf, expert: str) -> bool:
    return not (shelf.run(expert) / "final").exists()


def trained_on(shelf: Shelf, node: str) -> str | None:
    """The unfinished expert whose newest task is on the node."""
    for expert in shelf.experts:
        nodes = re.findall(rf"^{expert}: on node (\S+)$", shelf.said(), re.MULTILINE)
        if nodes and nodes[-1] == node and is_open(shelf, expert):
            return expert
    return None


def await_progress(shelf: Shelf, node: str) -> str:
    """Until the node has saved a checkpoint of some expert that it did not find there."""
    seen: dict[str, int] = {}

    def has_saved() -> bool:
        expert = trained_on(shelf, node)
        return expert is not None and shelf.checkpoint(expert) > seen.setdefault(
            expert, shelf.checkpoint(expert)
        )

    wait_for(has_saved, shelf.said)
    return trained_on(shelf, node) or ""


def assert_trained_once(shelf: Shelf, disturbances: int) -> None:
    """By the records of the runs: no attempt follows an end, the steps of an attempt follow a checkpoint, and
    one lease is left, which nobody holds."""
    repeated = 0
    for expert in shelf.experts:
        events = shelf.events(expert)
        ends = [number for number, event in enumerate(events) if event["body"]["type"] == "finished"]
        # A task that was killed between `final/` and its last line has finished without it.
        assert len(ends) <= 1, (expert, ends)
        assert all(event["attempt"] <= events[end]["attempt"] for end in ends for event in events), expert
        walked = [
            (event["attempt"], event["body"]["step"])
            for event in events
            if event["body"]["type"] == "progress"
        ]
        attempts = sorted({attempt for attempt, _ in walked})
        for attempt in attempts:
            ours = [step for number, step in walked if number == attempt]
            assert ours == list(range(ours[0], ours[0] + len(ours))), (expert, attempt, "steps out of order")
            assert (ours[0] - 1) % SAVED == 0, (expert, attempt, ours[0])
        assert {step for _, step in walked} == set(range(1, shelf.steps(expert) + 1)), expert
        repeated += sum(times - 1 for times in Counter(step for _, step in walked).values())
        (lease,) = (shelf.run(expert) / "lease").iterdir()
        # A task that was killed between its last write and the release has left it to expire.
        silent = time.time() - (lease / "holder").stat().st_mtime
        assert (lease / "released").exists() or silent > EXPIRES, f"{expert}: {list(lease.iterdir())}"
    assert repeated <= REPEATED * disturbances, repeated


def test_a_killed_node_a_lost_head_and_a_paused_node_in_one_run(
    undisturbed: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), undisturbed.cli, FOUR, **LONG)
    process = start(shelf, cluster)
    lost = await_progress(shelf, SECOND)
    cluster.kill(SECOND)
    cluster.add(THIRD)
    wait_for(lambda: f"{lost}: node {SECOND} was lost" in shelf.said(), shelf.said)

    await_progress(shelf, THIRD)
    cluster.kill(HEAD)
    found = shelf.result(process, 1)["experts"]
    assert {one["error"]["code"] for one in found if not one["ok"]} == {"ray-lost"}, shelf.said()
    # Without a head the nodes of before are lost too.
    cluster.kill(THIRD)
    cluster.add(HEAD)
    cluster.add(THIRD)

    (shelf.logs / "log").write_text("")
    process = start(shelf, cluster)
    paused = await_progress(shelf, THIRD)
    cluster.signal(THIRD, signal.SIGSTOP)
    time.sleep(60)
    cluster.signal(THIRD, signal.SIGCONT)
    cluster.add(FOURTH)
    found = shelf.result(process)["experts"]
    assert all(one["ok"] for one in found), shelf.said()
    assert f"{paused}: node {THIRD} was lost" in shelf.said(), shelf.said()
    shelf.assert_same(undisturbed)
    assert_trained_once(shelf, 4)
    again = shelf.finish("--engine", "ray", "--ray-address", cluster.address)["experts"]
    assert all(one["finished_before"] for one in again)


def disturb(kind: str, shelf: Shelf, cluster: Cluster, process: subprocess.Popen[bytes]) -> None:
    if kind == "node":
        cluster.kill(SECOND)
        cluster.add(THIRD)
    elif kind == "paused":
        cluster.signal(SECOND, signal.SIGSTOP)
        time.sleep(8)
        cluster.signal(SECOND, signal.SIGCONT)
        cluster.add(THIRD)
    elif kind == "worker":
        for node in (HEAD, SECOND):
            for pid in cluster.workers(node):
                os.kill(pid, signal.SIGKILL)
    elif kind == "head":
        cluster.kill(HEAD)
        shelf.ended(process)
        cluster.kill(SECOND)
        cluster.add(HEAD)
        cluster.add(SECOND)
    else:
        process.kill()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_disturbance_at_any_moment(
    short: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, number: int
) -> None:
    draw = random.Random(number)
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), short.cli, FOUR, **SHORT)
    process = start(shelf, cluster)
    kind = ("node", "paused", "worker", "head", "command")[number % 5]
    # By saved steps, because a busy machine may need ten times as long, and some moments later.
    wanted = draw.uniform(0, 0.95) * len(FOUR) * int(SHORT["max_steps"])
    wait_for(
        lambda: (
            ": on node " in shelf.said()
            and (sum(map(shelf.checkpoint, FOUR)) >= wanted or process.poll() is not None)
        ),
        shelf.said,
    )
    time.sleep(draw.uniform(0, 2))
    saved = {expert: shelf.checkpoint(expert) for expert in FOUR}
    print(f"round {number}: {kind}, checkpoints {saved}, running: {process.poll() is None}")
    disturb(kind, shelf, cluster, process)
    shelf.ended(process)
    # A lost node or a paused one needs no other start; a shelf without its head, worker or command does.
    found = shelf.finish("--engine", "ray", "--ray-address", cluster.address)["experts"]
    assert all(one["ok"] for one in found), shelf.said()
    if kind in ("node", "paused"):
        assert all(one["finished_before"] for one in found), shelf.said()
    shelf.assert_same(short)
    assert_trained_once(shelf, 2)
