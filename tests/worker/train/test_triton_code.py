"""The numbers of kernels in Triton's language, without a GPU: by its interpreter, beside fp64."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from expert_worker.train.fast.kernels import triton_code
from expert_worker.train.fast.kernels.registry import Target

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is for Linux")
PROGRAM = Path(__file__).with_name("interpreted.py")


@pytest.fixture(scope="module")
def found():
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_loss_in_place_is_that_of_fp64(found):
    for name, distances in found.items():
        # The gradient is rounded twice to 8 bits, as logits and as a product; the interpreter cuts off.
        within = 2e-2 if "bfloat16" in name else 1e-5
        assert distances and all(distance < within for distance in distances.values()), (name, distances)


def test_where_triton_runs(monkeypatch):
    card = Target(torch.device("cuda"), torch.bfloat16)
    for capability, runs in (((7, 0), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device, it=capability: it)
        assert triton_code.runs(card) is runs
    assert not triton_code.runs(Target(torch.device("cpu"), torch.bfloat16))
    monkeypatch.setattr(triton_code, "find_spec", lambda _name: None)
    assert not triton_code.runs(card)
