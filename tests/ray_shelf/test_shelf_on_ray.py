"""`train --all --engine ray` with real nodes on the loopback."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
from nodes import EXPERTS, HEAD, SECOND, THIRD, Cluster, Shelf, driver_of, wait_for

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="each node has an address of the loopback"),
]


@pytest.mark.full
def test_two_nodes_train_the_adapters_of_the_plain_shelf(
    plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), plain.cli)
    found = shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    assert [one["ok"] for one in found["experts"]] == [True, True], shelf.said()
    nodes = {line.split()[-1] for line in shelf.said().splitlines() if ": on node " in line}
    assert nodes == {HEAD, SECOND}, shelf.said()
    shelf.assert_same(plain)
    for expert in EXPERTS:
        assert (shelf.folder / "experts" / expert / "expert.lock").is_file()
    # Nothing is left to do, so no cluster is needed.
    cluster.kill(SECOND)
    again = shelf.finish("--engine", "ray", "--ray-address", "127.0.0.9:1")
    assert [one["finished_before"] for one in again["experts"]] == [True, True]


@pytest.mark.full
def test_a_finished_expert_whose_task_was_lost_at_its_end_is_skipped(
    plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), plain.cli)
    shelf.finish()
    for expert in EXPERTS:
        lease = shelf.run(expert) / "lease" / "1"
        lease.mkdir(parents=True)
        (lease / "holder").write_text("process 1 on a node that is gone\n")
    again = shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    assert [one["finished_before"] for one in again["experts"]] == [True, True], shelf.said()
    assert "waits for a node" in shelf.said()


# Long enough for a node to be lost meanwhile.
LONG = {"max_steps": 1500, "save_steps": 25, "evaluation_strategy": "no", "save_total_limit": 3}


@pytest.fixture(scope="module")
def long_plain(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = Shelf(tmp_path_factory.mktemp("long"), cli, **LONG)
    shelf.finish()
    return shelf


def node_of(shelf: Shelf, expert: str) -> str | None:
    """The newest one that it trains on."""
    found = re.findall(rf"^{expert}: on node (\S+)$", shelf.said(), re.MULTILINE)
    return found[-1] if found else None


def expert_on(shelf: Shelf, node: str) -> str:
    """The one that the node trains."""

    def trained_there() -> str | None:
        open_ones = [one for one in shelf.experts if not (shelf.run(one) / "final").exists()]
        return next((one for one in open_ones if node_of(shelf, one) == node), None)

    wait_for(lambda: trained_there() is not None, shelf.said)
    return trained_there() or ""


def steps(shelf: Shelf, expert: str) -> list[int]:
    bodies = [event["body"] for event in shelf.events(expert)]
    return [body["step"] for body in bodies if body["type"] == "progress"]


@pytest.mark.full
def test_an_expert_of_a_killed_node_resumes_on_another_one(
    long_plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), long_plain.cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    lost = expert_on(shelf, SECOND)
    shelf.await_checkpoint(lost, 50)
    cluster.kill(SECOND)
    found = {one["expert"]: one for one in shelf.result(process)["experts"]}
    assert found[lost]["result"]["resumed_from"] is not None, shelf.said()
    assert f"{lost}: node {SECOND} was lost" in shelf.said()
    assert node_of(shelf, lost) == HEAD
    shelf.assert_same(long_plain)


@pytest.mark.full
def test_experts_of_the_last_node_wait_for_another_one(
    cli: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    brief = {**LONG, "max_steps": 200}
    undisturbed = Shelf(tmp_path_factory.mktemp("brief"), cli, **brief)
    undisturbed.finish()
    cluster.add(HEAD, cpus=0)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), cli, **brief)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    lost = expert_on(shelf, SECOND)
    shelf.await_checkpoint(lost, 25)
    cluster.kill(SECOND)
    # One was lost, the other one has not begun.
    for expert in EXPERTS:
        waits = rf"{expert}: no node that is left has 1 CPUs.*: waits for one, 600 s at most"
        wait_for(lambda waits=waits: re.search(waits, shelf.said()), shelf.said)
    cluster.add(THIRD)
    found = {one["expert"]: one for one in shelf.result(process)["experts"]}
    assert found[lost]["result"]["resumed_from"] >= 25, shelf.said()
    shelf.assert_same(undisturbed)


@pytest.mark.full
def test_where_no_other_node_comes_the_command_says_what_to_do(
    cli: Path,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EXPERT_NODE_TIMEOUT", "5")
    cluster.add(HEAD, cpus=0)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    expert_on(shelf, SECOND)
    cluster.kill(SECOND)
    for one in shelf.result(process, 1)["experts"]:
        assert one["error"]["code"] == "nodes-lost", shelf.said()
        assert "no other came within 5 s" in one["error"]["message"]
        assert "ray start --address" in one["error"]["hint"]


@pytest.mark.full
def test_plans_for_a_cpu_are_not_trained_beside_gpus_of_nodes(
    plain: Shelf,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND, gpus=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    shelf = Shelf(tmp_path_factory.mktemp("shared"), plain.cli)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address, device="auto")
    error = shelf.result(process, 3)["error"]
    assert error["code"] == "plan-device" and error["message"].endswith(f"has some: {SECOND}"), error
    assert "--device cpu" in error["hint"]
    assert not shelf.run(EXPERTS[0]).exists()
    # Where the command asks for a CPU, the nodes' CPUs train.
    shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    shelf.assert_same(plain)


@pytest.mark.full
def test_a_node_that_returns_from_a_pause_changes_nothing(
    long_plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD, cpus=0)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), long_plain.cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address, "--only", EXPERTS[0])
    expert = EXPERTS[0]
    wait_for(lambda: node_of(shelf, expert) == SECOND, shelf.said)
    # One that joins later takes over.
    cluster.add(THIRD)
    shelf.await_checkpoint(expert, 50)
    cluster.signal(SECOND, signal.SIGSTOP)
    worker = cluster.worker(SECOND)
    lease = shelf.run(expert) / "lease"
    wait_for(lambda: not (lease / "1").exists() and (lease / "2").exists(), shelf.said)
    wait_for(lambda: node_of(shelf, expert) == THIRD, shelf.said)
    # The worker alone: Ray and expert-cli would end it before it saves.
    os.kill(worker, signal.SIGCONT)
    wait_for(lambda: not cluster.lives(worker), shelf.said)
    assert not (lease / "1").exists()
    cluster.signal(SECOND, signal.SIGCONT)
    found = shelf.result(process)["experts"]
    assert [one["ok"] for one in found] == [True], shelf.said()
    assert shelf.adapter(expert) == long_plain.adapter(expert)
    assert [path.name for path in lease.iterdir()] == ["2"]
    # What it wrote since, that it lost the lease too, is in a file that the other task has replaced.
    events = shelf.events(expert)
    attempts = [event["attempt"] for event in events]
    assert attempts == sorted(attempts) and attempts[-1] == 2, attempts
    assert "lease-lost" not in [event["body"].get("code") for event in events]


@pytest.mark.full
@pytest.mark.parametrize(
    ("asked", "code", "also_driver"),
    [(signal.SIGINT, 130, False), (signal.SIGTERM, 143, False), (signal.SIGTERM, 143, True)],
)
def test_a_stop_saves_every_expert_and_another_start_resumes(
    long_plain: Shelf,
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    asked: int,
    code: int,
    also_driver: bool,
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), long_plain.cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    for expert in EXPERTS:
        shelf.await_checkpoint(expert, 25)
    if also_driver:  # as systemd and Slurm do
        os.kill(driver_of(process.pid), asked)
    process.send_signal(asked)
    found = shelf.result(process, code)["experts"]
    # One that started sooner may have finished.
    stopped = [one["expert"] for one in found if not one["ok"]]
    assert stopped and {one["exit"] for one in found if not one["ok"]} == {code}, shelf.said()
    for expert in stopped:
        last = steps(shelf, expert)[-1]
        assert (shelf.run(expert) / f"checkpoint-{last}" / "state.json").is_file(), shelf.said()
    shelf.finish("--engine", "ray", "--ray-address", cluster.address)
    shelf.assert_same(long_plain)


@pytest.mark.full
def test_a_lost_head_ends_the_command_and_another_start_resumes(
    long_plain: Shelf, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster.add(HEAD)
    cluster.add(SECOND)
    shelf = Shelf(tmp_path_factory.mktemp("shared"), long_plain.cli, **LONG)
    process = shelf.start("--engine", "ray", "--ray-address", cluster.address)
    for expert in EXPERTS:
        shelf.await_checkpoint(expert, 25)
    cluster.kill(HEAD)
    found = shelf.result(process, 1)["experts"]
    # The head's own expert; the other node's may have ended before.
    assert {one["error"]["code"] for one in found if not one["ok"]} == {"ray-lost"}, shelf.said()
    cluster.kill(SECOND)
    cluster.add(HEAD)
    again = shelf.finish("--engine", "ray", "--ray-address", cluster.address)["experts"]
    assert all(one["finished_before"] or one["result"]["resumed_from"] for one in again), shelf.said()
    shelf.assert_same(long_plain)


@pytest.mark.full
def test_a_node_with_another_package_or_without_the_folder_ends_the_command(
    plain: Shelf, cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "torch-1.2.3.dist-info").mkdir()
    (tmp_path / "torch-1.2.3.dist-info" / "METADATA").write_text("Name: torch\nVersion: 1.2.3\n")
    cluster.add(HEAD)
    cluster.add(SECOND, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    shelf = Shelf(tmp_path_factory.mktemp("shared"), plain.cli)
    error = shelf.finish("--engine", "ray", "--ray-address", cluster.address, code=3)["error"]
    assert error["code"] == "node-differs"
    assert f"node {SECOND}: " in error["message"] and "torch 1.2.3 (driver: " in error["message"], error
    assert not shelf.run(EXPERTS[0]).exists()
