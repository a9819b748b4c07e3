"""Training beside one busy program per core: what it keeps of its fair share, and its longest stall.

The embedded base is trained on all cores alone, then beside as many endless loops. A fair scheduler gives
both the same CPU time, so the loops' CPU seconds during training are the share. A stall is a time in which no
thread of training was even ready for a core. Other programs take from both alike: no quiet machine is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from side import measured

_SCENE = {"length": 512, "rows": 2, "steps": 4, "embedded": True}


@contextmanager
def busy(programs: int) -> Iterator[list[int]]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def efficiency(found: dict[str, Any]) -> float:
    return float(found["tokens"] / found["cpu"])


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    alone, _ = measured("our", _SCENE, cores)
    with busy(cores) as loops:
        beside, _ = measured("our", _SCENE, cores, BESIDE=" ".join(map(str, loops)))
    kept = {
        "CPU seconds": ("its fair share", beside["cpu"] / beside["beside"]),
        "tokens per CPU second": ("alone", efficiency(beside) / efficiency(alone)),
    }
    what = "beside one busy program per core"
    document = {
        "cores": cores,
        "alone": {name: alone[name] for name in ("cpu", "wall", "tokens", "walls")},
        "beside": {name: beside[name] for name in ("cpu", "wall", "beside", "tokens", "walls")},
        "longest_stall_seconds": beside["longest_idle"],
        "rows": [
            {"what": f"{what}: {name}", "against": against, "ratio": ratio}
            for name, (against, ratio) in kept.items()
        ]
        + [{"what": f"{what}: longest stall {beside['longest_idle']:.2f} s"}],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
