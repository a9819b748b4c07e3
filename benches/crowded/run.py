"""Training beside one busy program per core: what it keeps of its fair share, and its longest stall.

The embedded base is trained on all cores alone, then beside as many endless loops. The fair share is half of
the cores. Tokens per CPU second show what is wasted, tokens per second what is left of the share.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from side import measured

_SCENE = {"length": 512, "rows": 2, "steps": 6, "embedded": True}
_FAIR = 0.5


@contextmanager
def busy(programs: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def speed(found: dict[str, Any], clock: str) -> float:
    return float(found["tokens"] / found[clock])


def stall(walls: Sequence[float]) -> float:
    """By how much the longest step exceeds the usual one, in seconds."""
    return max(walls) - median(walls)


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    alone, _ = measured("our", _SCENE, cores)
    with busy(cores):
        beside, _ = measured("our", _SCENE, cores)
    kept = {
        "tokens per second": ("its fair share", speed(beside, "wall") / (_FAIR * speed(alone, "wall"))),
        "tokens per CPU second": ("alone", speed(beside, "cpu") / speed(alone, "cpu")),
    }
    what = "beside one busy program per core"
    document = {
        "cores": cores,
        "longest_stall_seconds": stall(beside["walls"]),
        "rows": [
            {"what": f"{what}: {name}", "against": against, "ratio": ratio}
            for name, (against, ratio) in kept.items()
        ],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
