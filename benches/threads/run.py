"""Training the embedded base on one CPU thread and on two: tokens per second of wall time, bf16, two rows of
512.

A busy machine distorts the result: it needs both cores.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from side import measured

_SCENE = {"length": 512, "rows": 2, "steps": 4, "embedded": True}


def speed(threads: int) -> float:
    found, _ = measured("our", _SCENE, threads)
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
