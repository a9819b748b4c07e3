"""Training in separate processes, started as `expert-cli` starts the worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plans import example_document
from scene import DEFAULTS, save_base

ROOT = Path(__file__).parents[3]
PLACES = [
    ROOT / "worker" / "python",
    ROOT / "tests" / "worker",
    Path(__file__).parent,
    ROOT / "tests" / "crash",
]


@dataclass
class Worker:
    process: subprocess.Popen[str]
    output: Path

    def finish(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and what was said on the way."""
        said, log = self.process.communicate(timeout=300)
        bodies = [json.loads(line)["body"] for line in said.splitlines()]
        assert bodies, log[-3000:]
        return self.process.returncode, bodies

    def recorded(self) -> list[dict[str, Any]]:
        lines = (self.output / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["body"] for line in lines]


def start(
    folder: Path, changes: Mapping[str, Any], output: str, stage: str = "expert_test_training", **more: str
) -> Worker:
    save_base(folder / "base")
    document = example_document(folder, {**DEFAULTS, "machine.paths.output": str(folder / output), **changes})
    plan = folder / f"{output}.json"
    plan.write_text(json.dumps(document))
    environment = {
        **os.environ,
        "EXPERT_TEST_STAGE": stage,
        "PYTHONPATH": os.pathsep.join(map(str, PLACES)),
        "OMP_NUM_THREADS": "1",
        **more,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "expert_worker", "train", "--plan", str(plan)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Worker(process, folder / output)


def children(parent: int) -> list[int]:
    """Direct ones, as Linux lists them."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def rank_of(process: int) -> int:
    for setting in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
        if setting.startswith(b"EXPERT_RANK="):
            return int(setting.removeprefix(b"EXPERT_RANK="))
    raise AssertionError(f"{process} is none of those that train together")


def await_checkpoint(worker: Worker) -> None:
    while not any(worker.output.glob("checkpoint-*/state.json")):
        assert worker.process.poll() is None, worker.finish()[1][-1]
        time.sleep(0.05)
