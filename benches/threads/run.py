"""Training the embedded base on one processor and on two: tokens a second by the clock, bf16, rows of 512 by
twos.

A busy machine bends this one: it needs both processors for itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
_ROOT = HERE.parents[1]
_IMPORTED = [str(_ROOT / "worker" / "python"), str(_ROOT / "tests" / "worker")]
_SCENE = {"length": 512, "rows": 2, "steps": 4, "embedded": True}


def speed(threads: int) -> float:
    done = subprocess.run(
        [sys.executable, str(HERE.parent / "train" / "our_side.py"), json.dumps(_SCENE)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(_IMPORTED)},
    )
    if done.returncode:
        raise SystemExit(f"training on {threads} threads failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return float(found["tokens"] / found["wall"])


def main() -> None:
    one, two = speed(1), speed(2)
    what = f"embedded base, two threads {two:.0f} tokens/s, one {one:.0f}"
    row = {"what": what, "against": "one thread", "ratio": two / one}
    print(
        json.dumps({"one_thread_tokens_per_second": one, "two_threads_tokens_per_second": two, "rows": [row]})
    )


if __name__ == "__main__":
    main()
