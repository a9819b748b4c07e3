"""Compared with TRL's SFTTrainer: tokens per second, peak memory and the first step, as ratios.

    python benches/train/run.py            every scene
    python benches/train/run.py 512x4      scenes whose name begins so
    python benches/train/run.py formats    bf16 against fp32, both ours, on the embedded base

Each side is a separate process and they take turns. Ratios are of CPU time, which a busy machine hardly
affects; wall time is printed too. ATEN_CPU_CAPABILITY=avx2 and ONEDNN_MAX_CPU_ISA=AVX2 make a processor with
more behave as one without units for bf16; the document says what torch and oneDNN used.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from side import measured

SCENES: dict[str, dict[str, Any]] = {
    "512x4 lora": {"length": 512, "rows": 4, "steps": 4},
    "2048x2 lora": {"length": 2048, "rows": 2, "steps": 3},
    "512x4 dora, dropout 0.1": {"length": 512, "rows": 4, "steps": 4, "dora": True, "dropout": 0.1},
    "embedded lora": {"length": 512, "rows": 2, "steps": 2, "embedded": True},
}
FORMATS = "formats"


def main() -> None:
    names = tuple(sys.argv[1:])
    scenes = {name: scene for name, scene in SCENES.items() if name.startswith(names or "")}
    found = {
        name: compared(measured("trl", scene)[0], measured("our", scene)[0]) for name, scene in scenes.items()
    }
    rows = [row(name, it) for name, it in found.items()]
    document: dict[str, Any] = {"processor": processor(), "scenes": found}
    if not names or FORMATS in names:
        document[FORMATS] = formats()
        rows.append(row_of_formats(document[FORMATS]))
    print(json.dumps(document | {"rows": rows}))


def processor() -> dict[str, str | None]:
    import torch

    named = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")
    return {"torch": torch.backends.cpu.get_cpu_capability()} | {name: os.environ.get(name) for name in named}


def formats() -> dict[str, float]:
    """The default recipe's bf16 against fp32. Without units for bf16 products are formed in fp32."""
    narrow, wide = (
        measured("our", {**SCENES["embedded lora"], "number_format": name})[0] for name in ("bf16", "fp32")
    )
    return {
        "tokens": (narrow["tokens"] / narrow["cpu"]) / (wide["tokens"] / wide["cpu"]),
        "memory": narrow["peak"] / wide["peak"],
        "loss_apart": max(abs(a - b) / b for a, b in zip(narrow["losses"], wide["losses"], strict=True)),
    }


def row_of_formats(it: dict[str, float]) -> dict[str, Any]:
    what = (
        f"embedded lora in bf16: tokens a CPU second, {it['memory']:.2f}x the memory, "
        f"losses {it['loss_apart']:.1%} apart"
    )
    print(f"{what}: {it['tokens']:.2f}x", file=sys.stderr)
    return {"what": what, "against": "fp32", "ratio": it["tokens"]}


def compared(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
    """Ratios of tokens per second, by CPU time and by wall time, of peak memory and of the first step."""

    def speed(of: dict[str, Any], clock: str) -> float:
        return float(of["tokens"] / of[clock])

    return {
        "tokens": speed(ours, "cpu") / speed(theirs, "cpu"),
        "tokens_by_wall": speed(ours, "wall") / speed(theirs, "wall"),
        "memory": ours["peak"] / theirs["peak"],
        "first_step": ours["first_cpu"] / theirs["first_cpu"],
        "tokens_a_cpu_second": speed(ours, "cpu"),
        "peak_bytes": float(ours["peak"]),
    }


def row(name: str, it: dict[str, float]) -> dict[str, Any]:
    what = (
        f"{name}: tokens a CPU second ({it['tokens_by_wall']:.2f}x by wall time), "
        f"{it['memory']:.2f}x the memory, first step in {it['first_step']:.2f}x the time"
    )
    print(f"{what}: {it['tokens']:.2f}x", file=sys.stderr)
    return {"what": what, "against": "TRL SFTTrainer", "ratio": it["tokens"]}


if __name__ == "__main__":
    main()
