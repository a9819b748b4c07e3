"""Side by side with TRL's SFTTrainer: tokens a second, peak memory and the first step, as ratios.

    python benches/train/run.py            every scene
    python benches/train/run.py 512x4      scenes whose name begins so

Each side is a process of its own and they take turns. Ratios are of CPU time, which a busy machine hardly
bends; wall time is printed beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_IMPORTED = [str(HERE.parents[1] / "worker" / "python"), str(HERE.parents[1] / "tests" / "worker")]
SCENES: dict[str, dict[str, Any]] = {
    "512x4 lora": {"length": 512, "rows": 4, "steps": 4},
    "2048x2 lora": {"length": 2048, "rows": 2, "steps": 3},
    "512x4 dora, dropout 0.1": {"length": 512, "rows": 4, "steps": 4, "dora": True, "dropout": 0.1},
}


def measure(side: str, scene: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / f"{side}_side.py"), json.dumps(scene)],
        capture_output=True,
        text=True,
        check=False,
        env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(_IMPORTED)},
    )
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    for name, scene in SCENES.items():
        if len(sys.argv) > 1 and not name.startswith(sys.argv[1]):
            continue
        theirs, ours = measure("trl", scene), measure("our", scene)
        faster = (ours["tokens"] / ours["cpu"]) / (theirs["tokens"] / theirs["cpu"])
        by_wall = (ours["tokens"] / ours["wall"]) / (theirs["tokens"] / theirs["wall"])
        print(
            f"{name}: {faster:.2f}x the tokens a second ({by_wall:.2f}x by wall time), "
            f"{ours['peak'] / theirs['peak']:.2f}x the peak memory, "
            f"first step {ours['first_cpu'] / theirs['first_cpu']:.2f}x the time; "
            f"ours {ours['tokens'] / ours['cpu']:.0f} tokens a CPU second, {ours['peak'] / 2**30:.2f} GiB"
        )


if __name__ == "__main__":
    main()
