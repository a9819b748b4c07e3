"""What a run pays before its first step: ours beside TRL's, on the same tiny base and documents.

    python benches/startup/run.py

CPU seconds of the whole process less those of its steps: imports, model, adapter, data, and for ours also the
final adapter and its report. Beside it, what a command of the CLI takes that starts no worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRAIN = HERE.parent / "train"
SCENE = {"length": 128, "rows": 2, "steps": 1}
CLI = Path(os.environ.get("EXPERT_CLI", ROOT / "target" / "release" / "expert-cli"))


def main() -> None:
    ours, theirs = side("our"), side("trl")
    found: dict[str, Any] = {
        "ours_cpu_seconds": ours,
        "trl_cpu_seconds": theirs,
        "ratio": theirs / ours,
        "import_torch_cpu_seconds": cpu([sys.executable, "-c", "import torch"])[0],
        "worker_without_torch_cpu_seconds": cpu([sys.executable, "-c", "import expert_worker.__main__"])[0],
    }
    if CLI.is_file():
        found["plan_cpu_seconds"] = cpu([str(CLI), "plan", "--device", "cpu", "-m", "experts/expert-sql"])[0]
    what = f"start-up: {ours:.1f} CPU seconds beside a run's steps"
    found["rows"] = [{"what": what, "against": "TRL SFTTrainer", "ratio": theirs / ours}]
    print(json.dumps(found))


def side(name: str) -> float:
    """The lesser of two, so that cold files do not decide."""
    times = []
    for _ in range(2):
        seconds, told = cpu([sys.executable, str(TRAIN / f"{name}_side.py"), json.dumps(SCENE)])
        document = json.loads(told.splitlines()[-1])
        times.append(seconds - document["first_cpu"] - document["cpu"])
    return min(times)


def cpu(command: list[str]) -> tuple[float, str]:
    paths = [str(ROOT / "worker" / "python"), str(ROOT / "tests" / "worker")]
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{Path(command[1]).name} failed:\n{done.stderr[-2000:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, done.stdout


if __name__ == "__main__":
    main()
