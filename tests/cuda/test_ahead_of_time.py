"""The worker's Triton kernels, compiled for each compute capability without a card: no stack; registers,
shared memory and accesses of less than 128 bits may only fall."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from step_ledger import check

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is for Linux")
PROGRAM = Path(__file__).with_name("ahead_of_time.py")
FILE = Path(__file__).with_name("triton_ledger.json")
CAPABILITIES = (80, 89, 90, 100)
# What a usual run on an RTX 4090 takes; everything in `make test-all`.
SAMPLE = (
    89,
    "^loss and gradient, bf16|A, rank 16, bf16|heads of 128, rank 16, bf16, norms|activation, rank 16, bf16$"
    "|^parts|^4 bits to bf16",
)


@pytest.mark.parametrize(
    ("capability", "kernels"),
    [SAMPLE, *(pytest.param(it, ".", marks=pytest.mark.full) for it in CAPABILITIES)],
)
def test_machine_code_needs_no_more_than_its_ledger_allows(capability: int, kernels: str) -> None:
    command = [sys.executable, str(PROGRAM), str(capability), kernels]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for name, figures in found.items():
        assert figures["stack"] == 0 and figures.get("fused", 0) == 0, name
        check(FILE, name, figures)
    if kernels != ".":
        return
    ledger = json.loads(FILE.read_text())
    assert {name for name in ledger if name.endswith(f"_{capability}")} == found.keys()
