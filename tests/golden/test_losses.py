"""Fifty steps of a tiny run, loss by loss, with the instructions of this processor and with AVX2 alone.

Exact where torch, instructions and the processor's maker are those of a recording; within 1e-5 anywhere else.
After a change that is meant to move the numbers: `EXPERT_RECORD_GOLDEN=1 pytest tests/golden`, and say why in
the commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from run import recorded_at

HERE = Path(__file__).parent
NAMES = ["dora_dropout", "ia3", "lora"]
# torch's own kernels, oneDNN's and MKL's each have a switch.
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


@cache
def ran(instructions: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py")],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **(AVX2 if instructions == "avx2" else {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def recording(name: str) -> Path:
    return HERE / f"{name}.json"


# At every change with AVX2, of which there are exact recordings for every processor.
@pytest.mark.parametrize("instructions", [pytest.param("native", marks=pytest.mark.full), "avx2"])
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_the_recorded_ones(name, instructions):
    found = ran(instructions)
    place, losses = found["place"], found["losses"][name]
    assert len(losses) == 50
    path = recording(name)
    known = json.loads(path.read_text()) if path.exists() else {}
    if os.environ.get("EXPERT_RECORD_GOLDEN"):
        known[place] = losses
        path.write_text(json.dumps(known, indent=1) + "\n")
    for recorded in recorded_at(place, known):
        assert losses == recorded
    for recorded in known.values():
        assert losses == pytest.approx(recorded, rel=1e-5)


@pytest.mark.full
def test_avx2_is_another_place():
    """Where the processor has more, the switches must have worked, or one recording would stand for two."""
    native, held = ran("native"), ran("avx2")
    if "AVX512" in native["place"]:
        assert "AVX2" in held["place"] and native["losses"] != held["losses"]
    else:
        assert native["place"] == held["place"] and native["losses"] == held["losses"]
