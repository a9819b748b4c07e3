"""Kills through the real command line: token cache, worker process, supervision and all.

The settings are those of a shipped expert with DoRA for its adapter: that keeps the most between steps.
`make test` kills it twice, `make test-all` ten times, by turns the command line and the worker by itself.
Other settings have their kills in test_settings.py.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import (
    SAMPLE,
    SECRETS,
    find_cli,
    leaks,
    manifest_of,
    rows_of,
    save_base,
    surroundings,
    write_rows,
)
from defaults import Case
from learnt import assert_learnt
from trials import differing_files

STEPS = 12
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(os.name == "nt", reason="kills by signal")]


FULL = os.environ.get("EXPERT_FULL_TESTS") == "1"


class Expert:
    def __init__(self, folder: Path, cli: Path, case: Case, **changes: object) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.cli = folder, cli
        self.home = folder.parent / f"{folder.name}-home"
        self.manifest = folder / "manifest.json"
        save_base(folder / "base")
        write_rows(folder / "train.jsonl", rows_of())
        manifest = manifest_of("expert-tiny", "./base", case, max_steps=STEPS, **changes)
        self.manifest.write_text(json.dumps(manifest))

    def start(self, name: str, *more: str, **environment: str) -> subprocess.Popen[bytes]:
        command = ["train", "-m", self.manifest, "-o", self.output(name), "--device", "cpu", *more]
        return self.command(name, *command, **environment)

    def command(self, name: str, *words: str | Path, **environment: str) -> subprocess.Popen[bytes]:
        environment = surroundings(1) | SECRETS | {"EXPERT_HOME": str(self.home)} | environment
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([self.cli, *words], env=environment, stdout=log, stderr=log)

    def finish(self, name: str, *more: str) -> None:
        code = self.start(name, *more).wait()
        assert code == 0, (self.folder / f"{name}.log").read_text()[-3000:]

    def output(self, name: str) -> Path:
        return self.folder / name

    def worker(self, name: str) -> int:
        lines = (self.output(name) / "events.jsonl").read_text().splitlines()
        started = [json.loads(line)["body"] for line in lines if '"type":"started"' in line]
        return int(started[-1]["pid"])


@pytest.fixture(scope="module")
def cli() -> Path:
    found = find_cli()
    if found is None:
        pytest.skip("expert-cli is not built: make setup")
    return found


@pytest.fixture(scope="module")
def expert(quick_folder: Path, cli: Path) -> Expert:
    expert = Expert(quick_folder / "dora", cli, SAMPLE, adapter_type="dora")
    expert.finish("undisturbed", "--set", f"training.config.checkpoint_mirror={expert.folder / 'mirror'}")
    return expert


def test_the_run_learns(expert: Expert) -> None:
    assert_learnt(expert.output("undisturbed"))


@pytest.mark.full
def test_other_rows_give_other_bytes(expert: Expert, tmp_path: Path) -> None:
    turned = tmp_path / "turned.jsonl"
    write_rows(turned, rows_of()[::-1])
    expert.finish("turned", "-d", str(turned))
    adapters = [expert.output(name) / "final/adapter_model.safetensors" for name in ("undisturbed", "turned")]
    assert adapters[0].read_bytes() != adapters[1].read_bytes()


def await_checkpoint(expert: Expert, name: str, step: int, process: subprocess.Popen[bytes]) -> None:
    """Until the run has saved that step or a later one, or is over."""
    while process.poll() is None:
        found = expert.output(name).glob("checkpoint-*")
        steps = [int(path.name.removeprefix("checkpoint-")) for path in found if path.suffix == ""]
        if max(steps, default=0) >= step:
            return
        time.sleep(0.002)


def await_death(process: int) -> None:
    while True:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)


def kill(expert: Expert, name: str, step: int, worker_alone: bool) -> bool:
    """The worker by itself, or the command line: then the worker dies with it. False if the run was over."""
    process = expert.start(name)
    await_checkpoint(expert, name, step, process)
    worker = expert.worker(name)
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker if worker_alone else process.pid, signal.SIGKILL)
    code = process.wait()
    await_death(worker)
    if code == 0:
        return False
    assert code == (1 if worker_alone else -signal.SIGKILL), (expert.folder / f"{name}.log").read_text()
    return True


def test_killed_and_resumed_by_command(expert: Expert) -> None:
    draw = random.Random(13)
    for number in range(10 if FULL else 2):
        step = 2 * draw.randint(1, STEPS // 2 - 2)
        # On a busy machine a run may end before it is killed: that proves nothing, and another one is killed.
        attempts = (f"killed-{number}-{attempt}" for attempt in range(5))
        name = next(
            (name for name in attempts if kill(expert, name, step, worker_alone=number % 2 == 1)), None
        )
        assert name is not None, "every run ended before it was killed"
        expert.finish(name, "--resume")
        for part in ("final", f"checkpoint-{STEPS}"):
            other = differing_files(expert.output(name) / part, expert.output("undisturbed") / part)
            assert not other, f"{name}: {part} differs in {other}"


@pytest.mark.skipif(sys.platform != "linux", reason="undoes a bond that only Linux has")
def test_a_worker_that_outlives_the_command_line_is_the_only_writer(expert: Expert) -> None:
    places = os.pathsep.join([surroundings(1)["PYTHONPATH"], str(Path(__file__).parent)])
    outlives = {"EXPERT_TEST_STAGE": "expert_test_outlives", "PYTHONPATH": places}
    process = expert.start("outlived", "--set", "training.config.max_steps=5000", **outlives)
    await_checkpoint(expert, "outlived", 2, process)
    worker = expert.worker("outlived")
    process.kill()
    process.wait()
    try:
        for _ in range(2):
            second = expert.start("outlived", "--resume")
            assert second.wait() == 5
            said = (expert.folder / "outlived.log").read_text()
            assert f"in use by process {worker}, a worker whose expert-cli has ended" in said
            (expert.output("outlived") / "lock").unlink(missing_ok=True)
        os.kill(worker, signal.SIGTERM)
        await_death(worker)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    events = (expert.output("outlived") / "events.jsonl").read_text()
    assert '"code":"interrupted"' in events.splitlines()[-1], "it saved, and nobody wrote after it"
    assert sum('"type":"started"' in line for line in events.splitlines()) == 1


def test_no_secret_of_the_environment_is_left_or_said(expert: Expert) -> None:
    """By any of the runs above, the killed ones too, nor by `doctor`."""
    assert expert.command("doctor", "doctor").wait() == 0
    assert (expert.folder / "mirror").is_dir()
    assert leaks(expert.folder, expert.home) == []


def descendants(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    found = [int(child) for child in listed.read_text().split()] if listed.exists() else []
    return [*found, *(below for child in found for below in descendants(child))]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_processes_that_train_together_end_with_the_command_line(quick_folder: Path, cli: Path) -> None:
    expert = Expert(quick_folder / "team", cli, SAMPLE)
    together = ("--set", "training.config.distributed.processes=2", "--set", "training.config.max_steps=5000")
    process = expert.start("together", *together)
    await_checkpoint(expert, "together", 2, process)
    below = descendants(process.pid)
    assert len(below) >= 3
    process.kill()
    process.wait()
    for worker in below:
        await_death(worker)

    process = expert.start("together", *together, "--resume")
    newest = max(
        int(path.name.removeprefix("checkpoint-")) for path in expert.output("together").glob("c*-*")
    )
    await_checkpoint(expert, "together", newest + 2, process)
    below = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130, (expert.folder / "together.log").read_text()[-3000:]
    for worker in below:
        await_death(worker)
