"""What a user waits for beside the steps: one step of 512 tokens on the embedded base, the whole command.

    python benches/startup/run.py

Ours is `expert-cli train` with its token cache there, and leaves a checkpoint, an adapter and a report; TRL's
is a script that loads the same base, tokenizes a handful of rows and leaves nothing. Seconds by the clock,
the lesser of two runs each, on all processors. Beside them, the CPU seconds of commands that start no worker.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "train"), str(HERE.parent)]

from program import expert_cli  # noqa: E402
from side import measured, run  # noqa: E402

SCENE = {"length": 512, "rows": 1, "steps": 0, "embedded": True}
THREADS = os.cpu_count() or 1
SQL = ["-m", "experts/expert-sql", "--model", "smollm2-135m", "--device", "cpu"]
ONE_STEP = ["batch_size=1", "evaluation_strategy=no", "load_best_model_at_end=false"]


def main() -> None:
    cli = str(expert_cli())
    # The token cache, the base's safetensors and what both read are there for the runs that count.
    train(cli)
    ours, theirs = lesser(lambda: train(cli)), lesser(lambda: measured("trl", SCENE, THREADS))
    what = f"start-up: {ours:.1f} s for a whole command of one step"
    found: dict[str, Any] = {
        "ours_seconds": ours,
        "trl_seconds": theirs,
        "ratio": theirs / ours,
        "import_torch_cpu_seconds": run(["-c", "import torch"])[1],
        "worker_without_torch_cpu_seconds": run(["-c", "import expert_worker.__main__"])[1],
        "plan_cpu_seconds": run(["plan", *SQL], program=cli)[1],
        "rows": [{"what": what, "against": "TRL SFTTrainer", "ratio": theirs / ours}],
    }
    print(json.dumps(found))


def train(cli: str) -> None:
    settings = [word for pair in ONE_STEP for word in ("--set", f"training.config.{pair}")]
    with tempfile.TemporaryDirectory() as output:
        run(
            ["train", *SQL, "--python", sys.executable, "--max-steps", "1", "-o", output, *settings],
            THREADS,
            program=cli,
        )


def lesser(work: Callable[[], object]) -> float:
    """So that cold files do not decide."""
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        work()
        seconds.append(time.monotonic() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
