"""`expert-cli train` in the processes of a launcher: torchrun with two agents on the loopback, or processes
with the same variables, as Slurm and Kubernetes start them."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command import SAMPLE, find_cli, manifest_of, rows_of, save_base, surroundings, write_rows
from disks import Disk
from learnt import assert_learnt
from safetensors.torch import load_file
from tiny import apart

STEPS = 12
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="ends processes as Linux does"),
]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@dataclass
class Ranks:
    """Processes of one launch. `said` is what each has written, on both streams."""

    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def said(self, number: int) -> str:
        return (self.folder / f"rank-{number}.log").read_text()

    def finish(self) -> list[int]:
        return [process.wait(timeout=900) for process in self.processes]


@dataclass
class Expert:
    folder: Path
    cli: Path
    launches: int = 0
    started: list[Ranks] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        known = surroundings(1) | {"EXPERT_HOME": str(self.folder / "home")}
        kept = {name: value for name, value in known.items() if name not in LAUNCHERS}
        return {name: value for name, value in kept.items() if not name.startswith("SLURM_")} | more

    def words(self, output: str, *more: str) -> list[str]:
        place = self.folder / output
        manifest = self.folder / "manifest.json"
        return [str(self.cli), "train", "-m", str(manifest), "-o", str(place), "--device", "cpu", *more]

    def alone(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=self.environment(**environment), capture_output=True, text=True, check=False
        )

    def ranks(self, output: str, *more: str, other: list[str] | None = None) -> Ranks:
        """Two processes that a launcher has numbered; `other` is rank 1's command, where it is another."""
        port = free_port()
        launched = self._launch()
        for number in range(2):
            words = other if other and number == 1 else self.words(output, *more)
            self._start(launched, number, words, rank_variables(number, port))
        return launched

    def torchrun(self, output: str, *more: str) -> Ranks:
        """Two agents with a process each, as on two machines."""
        launched, port = self._launch(), free_port()
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "test"]
        for number in range(2):
            self._start(launched, number, [*agent, *meeting, "--no-python", *self.words(output, *more)], {})
        return launched

    def _launch(self) -> Ranks:
        self.launches += 1
        folder = self.folder / f"launch-{self.launches}"
        folder.mkdir()
        self.started.append(Ranks(folder))
        return self.started[-1]

    def _start(self, launched: Ranks, number: int, words: list[str], more: dict[str, str]) -> None:
        with (launched.folder / f"rank-{number}.log").open("w") as log:
            process = subprocess.Popen(words, env=self.environment(**more), stdout=log, stderr=log, text=True)
        launched.processes.append(process)


def rank_variables(number: int, port: int) -> dict[str, str]:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {"RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": str(number), **meeting}


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    cli = find_cli()
    if cli is None:
        pytest.skip("expert-cli is not built: make setup")
    folder = tmp_path_factory.mktemp("launched")
    save_base(folder / "base")
    write_rows(folder / "train.jsonl", rows_of())
    manifest = manifest_of("expert-tiny", "./base", SAMPLE, max_steps=STEPS, bf16=False, fp16=False)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    expert = Expert(folder, cli)
    yield expert
    for launched in expert.started:
        for process in launched.processes:
            process.kill()


@pytest.fixture(scope="module")
def by_itself(expert: Expert) -> Path:
    """The run of one process."""
    trained = expert.alone(*expert.words("alone"))
    assert trained.returncode == 0, trained.stderr[-3000:]
    assert_learnt(expert.folder / "alone")
    return expert.folder / "alone"


def adapters_apart(one: Path, other: Path) -> float:
    first, second = (load_file(run / "final" / "adapter_model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    return max(apart(first[name], second[name]) for name in first)


def newest(run: Path) -> int:
    steps = [path.name.removeprefix("checkpoint-") for path in run.glob("checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


def await_checkpoint(launched: Ranks, run: Path, step: int) -> None:
    while newest(run) < step:
        assert all(process.poll() is None for process in launched.processes), launched.said(0)[-3000:]
        time.sleep(0.02)


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
    assert "--fresh starts over" in heard, heard


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
