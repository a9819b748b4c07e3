"""One side's training in a separate process: its measurements, and those of the whole process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def measured(
    side: str, scene: dict[str, Any], threads: int = 1, **variables: str
) -> tuple[dict[str, Any], float]:
    """The `our` or `trl` side's document, and the CPU seconds of its process."""
    told, seconds = run([str(HERE / f"{side}_side.py"), json.dumps(scene)], threads, **variables)
    document: dict[str, Any] = json.loads(told.splitlines()[-1])
    return document, seconds


def run(
    words: list[str], threads: int = 1, program: str = sys.executable, **variables: str
) -> tuple[str, float]:
    """What a program printed and its CPU seconds, with the worker's sources at hand."""
    paths = [str(ROOT / "worker" / "python"), str(ROOT / "tests" / "worker")]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    environment |= variables
    before = _childrens_seconds()
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(f"{' '.join([Path(program).name, *words])} failed:\n{done.stderr[-2000:]}")
    return done.stdout, _childrens_seconds() - before


def _childrens_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
