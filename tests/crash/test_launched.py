"""`expert-cli train` in the processes of a launcher: torchrun with two agents on the loopback, or processes
with the same variables, as Slurm and Kubernetes start them."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import Disk, SlowStorage
from launches import STEPS, Expert, Ranks, adapters_apart, await_checkpoint, expert_in, newest, rank_variables
from learnt import assert_learnt

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="ends processes as Linux does"),
]


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    with expert_in(tmp_path_factory.mktemp("launched")) as expert:
        yield expert


@pytest.fixture(scope="module")
def by_itself(expert: Expert) -> Path:
    """The run of one process."""
    trained = expert.alone(*expert.words("alone"))
    assert trained.returncode == 0, trained.stderr[-3000:]
    assert_learnt(expert.folder / "alone")
    return expert.folder / "alone"


def test_some_variables_of_a_launcher_are_an_error_that_names_the_others(expert: Expert) -> None:
    refused = expert.alone(*expert.words("incomplete"), RANK="1")
    assert refused.returncode == 2
    assert "not WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT" in refused.stderr
    assert "unset RANK" in refused.stderr
    assert not (expert.folder / "incomplete").exists()
    # A process that the launcher starts by itself is none of several.
    planned = expert.alone(*expert.words("incomplete", "--dry-run", "--json"), RANK="0", WORLD_SIZE="1")
    assert json.loads(planned.stdout)["plan"]["machine"]["distributed"] is None


def test_the_plan_is_printed_by_rank_0_and_names_the_launchers_processes(expert: Expert) -> None:
    for command in (expert.words("dry", "--dry-run", "--json"), [*plan_of(expert), "--json"]):
        first = expert.alone(*command, **rank_variables(0, 29500))
        plan = json.loads(first.stdout)["plan"]
        assert plan["machine"]["distributed"] == {"strategy": "ddp", "processes": 2}, first.stderr
        other = expert.alone(*command, **rank_variables(1, 29500))
        assert (other.returncode, other.stdout, other.stderr) == (0, "", "")


def plan_of(expert: Expert) -> list[str]:
    return [str(expert.cli), "plan", "-m", str(expert.folder / "manifest.json"), "--device", "cpu"]


def test_another_number_of_processes_than_the_launchers_is_refused(expert: Expert) -> None:
    three = ["--set", "training.config.distributed.processes=3"]
    for number in range(2):
        refused = expert.alone(*expert.words("three", *three), **rank_variables(number, 29500))
        assert refused.returncode == 2
        assert "the launcher has started 2 processes, and the manifest wants 3" in refused.stderr


def test_a_shelf_is_not_trained_by_ranks(expert: Expert) -> None:
    words = [str(expert.cli), "train", "--all", str(expert.folder)]
    refused = expert.alone(*words, **rank_variables(0, 29500))
    assert refused.returncode == 2 and "--all trains many experts" in refused.stderr


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "limit"), [("ddp", 1e-6), ("fsdp2", 1e-4)])
def test_two_agents_of_torchrun_train_as_one_process(
    expert: Expert, by_itself: Path, strategy: str, limit: float
) -> None:
    run = expert.folder / f"pair-{strategy}"
    asked = [] if strategy == "ddp" else ["--set", "training.config.distributed=fsdp2"]
    launched = expert.torchrun(run.name, *asked)
    assert launched.finish() == [0, 0], launched.said(0)[-3000:] + launched.said(1)[-3000:]
    assert_learnt(run)
    assert adapters_apart(run, by_itself) < limit
    both = [launched.said(number) for number in range(2)]
    first = next(said for said in both if f"({strategy}" in said)
    other = next(said for said in both if said is not first)
    assert "waits for rank 0" in other and "done; rank 0 writes the result" in other
    assert "loss" not in other and "checkpoint" not in other
    assert (run / "events.jsonl").read_text().count('"type":"started"') == 1
    assert not list(run.glob("worker-*.log")) and not list(run.glob(".writing-*"))

    again = expert.ranks(run.name, *asked)
    assert again.finish() == [0, 0]
    assert "is finished in" in again.said(0) and "this recipe is finished" in again.said(1)


@pytest.mark.full
def test_ranks_that_are_not_alike_are_refused_by_all(expert: Expert) -> None:
    launched = expert.ranks("unlike", other=expert.words("unlike", "--learning-rate", "0.02"))
    assert launched.finish() == [2, 2]
    for number in range(2):
        said = launched.said(number)
        assert "Rank 1 of 2 has another manifest or other options than rank 0" in said
        assert "learning_rate is 0.02, and 0.01 on rank 0" in said

    elsewhere = expert.folder / "elsewhere"
    launched = expert.ranks("unshared", other=expert.words("elsewhere"))
    assert launched.finish() == [2, 2]
    for number in range(2):
        said = " ".join(launched.said(number).split())
        assert "Rank 1 of 2 does not see what rank 0 writes to the output folder" in said
        assert "elsewhere" in said
    assert not elsewhere.exists()


@pytest.mark.full
@pytest.mark.parametrize("launcher", ["torchrun", "ranks"])
def test_ranks_learn_why_rank_0_refuses_to_start(expert: Expert, by_itself: Path, launcher: str) -> None:
    other = ["--learning-rate", "0.02"]
    start = expert.torchrun if launcher == "torchrun" else expert.ranks
    launched = start(by_itself.name, *other)
    codes = launched.finish()
    assert codes == ([1, 1] if launcher == "torchrun" else [2, 2])
    both = [launched.said(number) for number in range(2)]
    heard = next(said for said in both if "waits for rank 0" in said)
    assert "Rank 0 of 2 refused to start" in heard and "learning_rate" in heard, heard
    assert "--fresh" in heard, heard


@pytest.mark.full
def test_ranks_learn_that_another_run_holds_the_folder(expert: Expert) -> None:
    run = expert.folder / "held"
    first = expert.ranks(run.name, "--set", "training.config.max_steps=5000")
    await_checkpoint(first, run, 2)
    second = expert.ranks(run.name, "--set", "training.config.max_steps=5000", "--resume")
    assert second.finish() == [5, 5], second.said(0) + second.said(1)
    assert "Rank 0 of 2 refused to start" in second.said(1)
    first.processes[1].terminate()
    assert first.finish() == [143, 143]


def assert_ended(launched: Ranks, victim: int) -> None:
    """The other rank ends by itself once the two have met; before that a launcher ends it."""
    survivor = launched.processes[1 - victim]
    try:
        code = survivor.wait(timeout=60)
    except subprocess.TimeoutExpired:
        survivor.terminate()
        try:
            code = survivor.wait(timeout=30)
        except subprocess.TimeoutExpired:
            survivor.kill()
            code = survivor.wait()
        assert code in (143, -signal.SIGKILL), launched.said(1 - victim)[-2000:]
        return
    said = launched.said(1 - victim)
    reasons = ("is gone", "has failed", "no sign of life")
    assert code == 0 or (code == 1 and any(reason in said for reason in reasons)), said


@pytest.fixture(scope="module")
def pair_seconds(expert: Expert, by_itself: Path) -> float:
    """How long two ranks take from their start to their end."""
    run = expert.folder / "timed"
    began = time.monotonic()
    launched = expert.ranks(run.name)
    assert launched.finish() == [0, 0], launched.said(0)[-3000:]
    assert adapters_apart(run, by_itself) < 1e-6
    return time.monotonic() - began


@pytest.mark.full
@pytest.mark.parametrize("number", range(10))
def test_a_rank_killed_at_any_moment_and_resumed_by_two_or_one(
    expert: Expert, by_itself: Path, pair_seconds: float, number: int
) -> None:
    draw = random.Random(number)
    run, victim = expert.folder / f"killed-{number}", number % 2
    launched = expert.ranks(run.name)
    if draw.random() < 0.3:  # While it starts.
        time.sleep(draw.uniform(0, pair_seconds / 2))
    else:
        await_checkpoint(launched, run, 2 * draw.randint(1, STEPS // 2 - 2))
        time.sleep(draw.uniform(0, 0.5))
    launched.processes[victim].kill()
    print(f"rank {victim} killed, checkpoint {newest(run)}")
    assert_ended(launched, victim)
    if number % 3 == 0:  # With fewer processes than before.
        resumed = expert.alone(*expert.words(run.name, "--resume"))
        assert resumed.returncode == 0, resumed.stderr[-3000:]
    else:
        again = expert.ranks(run.name, "--resume")
        assert again.finish() == [0, 0], again.said(0)[-3000:]
    assert adapters_apart(run, by_itself) < 1e-6


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_other_with_process_lost(expert: Expert, by_itself: Path, victim: int) -> None:
    run = expert.folder / f"lost-{victim}"
    launched = expert.ranks(run.name, "--set", "training.config.max_steps=5000")
    await_checkpoint(launched, run, 4)
    launched.processes[victim].kill()
    assert launched.finish()[1 - victim] == 1
    assert "Another process of this run is gone" in launched.said(1 - victim)


@pytest.mark.full
@pytest.mark.parametrize(("asked", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_rank_that_is_asked_to_stop_stops_all_at_one_step(expert: Expert, asked: int, code: int) -> None:
    run = expert.folder / f"stopped-{code}"
    launched = expert.ranks(run.name, "--set", "training.config.max_steps=5000")
    await_checkpoint(launched, run, 2)
    os.kill(launched.processes[1].pid, asked)
    assert launched.finish() == [code, code], launched.said(0)[-1000:] + launched.said(1)[-1500:]
    bodies = [json.loads(line)["body"] for line in (run / "events.jsonl").read_text().splitlines()]
    last = max(body["step"] for body in bodies if body["type"] == "progress")
    assert (run / f"checkpoint-{last}" / "state.json").is_file()
    assert bodies[-1]["code"] == "interrupted"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.close()


@pytest.mark.full
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_an_output_folder_that_fails_in_mid_run_loses_nothing(expert: Expert, disk: Disk, how: str) -> None:
    run, longer = disk.folder / "run", ["--set", "training.config.max_steps=40"]
    reference = expert.folder / "longer"
    if not (reference / "final").exists():
        assert expert.ranks(reference.name, *longer).finish() == [0, 0]
    launched = expert.ranks(str(run), *longer)
    await_checkpoint(launched, run, 10)
    disk.fail(how)
    assert launched.finish() == [4, 1], launched.said(0)[-2000:] + launched.said(1)[-2000:]
    assert str(run) in " ".join(launched.said(0).split()), launched.said(0)[-2000:]
    disk.repair()
    assert newest(run) >= 10
    resumed = expert.ranks(str(run), *longer, "--resume")
    assert resumed.finish() == [0, 0], resumed.said(0)[-3000:]
    assert adapters_apart(run, reference) < 1e-6


@pytest.mark.full
def test_an_output_folder_that_is_slow_and_hangs_for_a_while_gives_the_same_adapter(
    expert: Expert, by_itself: Path, tmp_path: Path
) -> None:
    slow, run = SlowStorage(tmp_path), expert.folder / "slow"
    launched = expert.ranks(run.name, environment=slow.variables)
    await_checkpoint(launched, run, 4)
    assert all(slow.slows(pid) for number in range(2) for pid in launched.below(number, b"expert_worker"))
    with slow.held():
        time.sleep(5)
        before = newest(run)
        time.sleep(35)
        assert newest(run) == before and all(process.poll() is None for process in launched.processes)
    waited = re.findall(r"(\S+) has not answered for 20 s", launched.said(0))
    assert len(waited) == 1 and str(run) in waited[0], launched.said(0)[-3000:]
    assert launched.finish() == [0, 0], launched.said(0)[-3000:]
    assert adapters_apart(run, by_itself) < 1e-6


@pytest.mark.full
@pytest.mark.parametrize(("strategy", "limit"), [("ddp", 1e-6), ("fsdp2", 1e-4)])
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_a_run_resumes_with_fewer_or_more_processes(
    expert: Expert, by_itself: Path, strategy: str, limit: float, before: int, after: int
) -> None:
    run = expert.folder / f"{strategy}-{before}-{after}"
    asked = [] if strategy == "ddp" else ["--set", "training.config.distributed=fsdp2"]
    launched = expert.ranks(run.name, *asked, count=before)
    await_checkpoint(launched, run, 4)
    launched.processes[-1].kill()
    launched.finish()
    assert newest(run) >= 4 and not (run / "final").exists()
    resumed = expert.ranks(run.name, *asked, "--resume", count=after)
    assert resumed.finish() == [0] * after, resumed.said(0)[-3000:]
    started = [json.loads(line)["body"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert [body["resumed_from"] >= 4 for body in started if body["type"] == "started"] == [False, True]
    assert adapters_apart(run, by_itself) < limit
