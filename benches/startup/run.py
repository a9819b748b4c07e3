"""What a run pays before its first step: ours beside TRL's, on the same tiny base and documents.

    python benches/startup/run.py

CPU seconds of the whole process less those of its steps: imports, model, adapter, data, and for ours also the
final adapter and its report. Beside it, what a command of the CLI takes that starts no worker.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "train"))

from side import measured, run  # noqa: E402

SCENE = {"length": 128, "rows": 2, "steps": 1}
CLI = Path(os.environ.get("EXPERT_CLI", ROOT / "target" / "release" / "expert-cli"))


def main() -> None:
    ours, theirs = side("our"), side("trl")
    found: dict[str, Any] = {
        "ours_cpu_seconds": ours,
        "trl_cpu_seconds": theirs,
        "ratio": theirs / ours,
        "import_torch_cpu_seconds": run(["-c", "import torch"])[1],
        "worker_without_torch_cpu_seconds": run(["-c", "import expert_worker.__main__"])[1],
    }
    if CLI.is_file():
        words = ["plan", "--device", "cpu", "-m", "experts/expert-sql"]
        found["plan_cpu_seconds"] = run(words, program=str(CLI))[1]
    what = f"start-up: {ours:.1f} CPU seconds beside a run's steps"
    found["rows"] = [{"what": what, "against": "TRL SFTTrainer", "ratio": theirs / ours}]
    print(json.dumps(found))


def side(name: str) -> float:
    """The lesser of two, so that cold files do not decide."""
    times = []
    for _ in range(2):
        document, seconds = measured(name, SCENE)
        times.append(seconds - document["first_cpu"] - document["cpu"])
    return min(times)


if __name__ == "__main__":
    main()
