"""Experts of one base in one pass against one after another: tokens per CPU second and peak memory.

    python -m benches.fuse            every scene
    python -m benches.fuse "4 experts"    scenes whose name begins so

Each side is a separate process, and they take turns, several times; ratios are of medians, by the CPU time of
the steps, which a busy machine affects less. Peak memory is compared with that of a process for each expert.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "train"), str(HERE.parent)]

from machine import device  # noqa: E402
from side import run  # noqa: E402

# With more threads than free cores, single rows wait for threads that other programs keep from running.
THREADS, TURNS = 1, 3
TINY: dict[str, Any] = {"length": 48, "rows": 1, "mean_document": 40, "steps": 30}
EMBEDDED: dict[str, Any] = {"length": 64, "rows": 1, "embedded": True}
SCENES: dict[str, dict[str, Any]] = {
    "2 experts, tiny base, rows of 48 tokens": {"experts": 2, "scene": TINY},
    "4 experts, tiny base, rows of 48 tokens": {"experts": 4, "scene": TINY},
    "2 experts, embedded base, rows of 16 tokens": {
        "experts": 2, "cut": 16, "scene": {**EMBEDDED, "steps": 12},
    },
    "4 experts, embedded base, rows of 16 tokens": {
        "experts": 4, "cut": 16, "scene": {**EMBEDDED, "steps": 12},
    },
    "4 experts, embedded base, rows of 64 tokens": {
        "experts": 4, "cut": 64, "scene": {**EMBEDDED, "steps": 8},
    },
}  # fmt: skip


def main() -> None:
    names = tuple(sys.argv[1:])
    found = {name: compared(it) for name, it in SCENES.items() if name.startswith(names or "")}
    rows = [row(name, it) for name, it in found.items()]
    print(json.dumps({"device": device(), "threads": THREADS, "scenes": found, "rows": rows}))


def compared(wanted: dict[str, Any]) -> dict[str, Any]:
    sides: dict[str, list[dict[str, Any]]] = {"fused": [], "one_after_another": [], "one": []}
    for _ in range(TURNS):
        for side, done in sides.items():
            done.append(measured(side, wanted))
    speed, by_wall = (
        {side: statistics.median(it["tokens"] / it[clock] for it in done) for side, done in sides.items()}
        for clock in ("cpu", "wall")
    )
    peak = {side: statistics.median(it["peak"] for it in done) for side, done in sides.items()}
    return {
        "experts": wanted["experts"],
        "tokens_per_cpu_second": {name: speed[name] for name in ("fused", "one_after_another")},
        "ratio": speed["fused"] / speed["one_after_another"],
        "ratio_by_wall": by_wall["fused"] / by_wall["one_after_another"],
        "peak_bytes": {"fused": peak["fused"], "one": peak["one"]},
        "memory": peak["fused"] / (wanted["experts"] * peak["one"]),
        "losses_apart": apart(sides["fused"][0]["losses"], sides["one_after_another"][0]["losses"]),
    }


def measured(side: str, wanted: dict[str, Any]) -> dict[str, Any]:
    told, _ = run([str(HERE / "side.py"), side, json.dumps(wanted)], THREADS)
    document: dict[str, Any] = json.loads(told.splitlines()[-1])
    return document


def apart(ours: list[list[float]], theirs: list[list[float]]) -> float:
    pairs = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    return max(abs(one - other) / abs(other) for one, other in pairs)


def row(name: str, it: dict[str, Any]) -> dict[str, Any]:
    what = (
        f"{name}: tokens per CPU second ({it['ratio_by_wall']:.2f}x by wall time), with "
        f"{it['memory']:.2f}x the peak memory of a process per expert"
    )
    print(f"{what}: {it['ratio']:.2f}x", file=sys.stderr)
    return {"what": what, "against": "one after another", "ratio": it["ratio"]}


if __name__ == "__main__":
    main()
