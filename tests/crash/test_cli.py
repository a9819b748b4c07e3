"""Kills through the real command line: token cache, worker process, supervision and all."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scene import save_base

from expert_worker.checkpoint.files import same_bytes

ROOT = Path(__file__).parents[2]
STEPS = 24
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(os.name == "nt", reason="kills by signal")]


def find_cli() -> Path | None:
    """EXPERT_CLI names another build than the one that `make setup` leaves."""
    named = os.environ.get("EXPERT_CLI")
    found = Path(named) if named else ROOT / "target" / "release" / "expert-cli"
    return found if found.is_file() else None


class Expert:
    def __init__(self, folder: Path, cli: Path) -> None:
        self.folder, self.cli = folder, cli
        self.manifest = folder / "manifest.json"
        save_base(folder / "base")
        (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows()))
        self.manifest.write_text(json.dumps(_manifest()))

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        place = os.environ.get("PYTHONPATH", "")
        environment = {
            **os.environ,
            "EXPERT_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "worker" / "python"), place]),
            "OMP_NUM_THREADS": "1",
        }
        command = [self.cli, "train", "-m", self.manifest, "-o", self.output(name), "--device", "cpu", *more]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def finish(self, name: str, *more: str) -> None:
        code = self.start(name, *more).wait()
        assert code == 0, (self.folder / f"{name}.log").read_text()[-3000:]

    def output(self, name: str) -> Path:
        return self.folder / name

    def worker(self, name: str) -> int:
        lines = (self.output(name) / "events.jsonl").read_text().splitlines()
        started = [json.loads(line)["body"] for line in lines if '"type":"started"' in line]
        return int(started[-1]["pid"])


def _rows() -> list[dict[str, Any]]:
    return [
        {"prompt": f"w{row % 90 + 1} w{row % 7 + 3} ", "completion": f"w{row % 11 + 5} w{row % 13 + 2}"}
        for row in range(40)
    ]


def _manifest() -> dict[str, Any]:
    config = {
        "method": "sft",
        "adapter_type": "lora",
        "rank": 4,
        "alpha": 8,
        "dropout": 0.1,
        "target_modules": ["q_proj", "v_proj", "down_proj"],
        "learning_rate": 0.01,
        "max_steps": STEPS,
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_seq_length": 64,
        "packing": False,
        "save_strategy": "steps",
        "save_steps": 2,
        "save_total_limit": 3,
    }
    return {
        "name": "expert-tiny",
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Words that follow words.",
        "base_models": [{"name": "./base", "quantization": "none", "prompt_template": "alpaca"}],
        "training": {"dataset": {"path": "train.jsonl"}, "config": config},
    }


@pytest.fixture(scope="module")
def expert(quick_folder: Path) -> Expert:
    cli = find_cli()
    if cli is None:
        pytest.skip("expert-cli is not built: make setup")
    expert = Expert(quick_folder, cli)
    expert.finish("undisturbed")
    return expert


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


def test_killed_and_resumed_by_command(expert: Expert, every_trial: bool) -> None:
    draw = random.Random(13)
    for number in range(10 if every_trial else 1):
        name = f"killed-{number}"
        process = expert.start(name)
        await_checkpoint(expert, name, 2 * draw.randint(1, STEPS // 2 - 2), process)
        worker = expert.worker(name)
        # The worker by itself, or the command line: then the worker dies with it.
        victim = worker if number % 2 else process.pid
        if process.poll() is None:
            os.kill(victim, signal.SIGKILL)
        process.wait()
        await_death(worker)
        expert.finish(name, "--resume")
        for part in ("final", f"checkpoint-{STEPS}"):
            same = same_bytes(expert.output(name) / part, expert.output("undisturbed") / part)
            assert same, f"{name}: {part} differs"


def descendants(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    found = [int(child) for child in listed.read_text().split()] if listed.exists() else []
    return [*found, *(below for child in found for below in descendants(child))]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")
def test_processes_that_train_together_end_with_the_command_line(expert: Expert) -> None:
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
