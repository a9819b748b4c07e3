"""The numbers of kernels in Triton's language, without a GPU: by its interpreter, beside fp64."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from expert_worker.train.fast.kernels import triton_code
from expert_worker.train.fast.kernels.registry import Target

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is for Linux")
PROGRAM = Path(__file__).with_name("interpreted.py")


@pytest.fixture(scope="module")
def found():
    return interpreted("numbers")


def interpreted(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kernel", ["loss", "dropout", "drop", "mlp", "heads"])
def test_numbers_are_those_of_fp64(found, kernel):
    for name, distances in found[kernel].items():
        # Rounded to 8 bits once or twice.
        within = 4e-3 if "bfloat16" in name else 1e-5
        assert distances and all(distance < within for distance in distances.values()), (name, distances)


def test_weights_of_4_bits_are_those_of_bitsandbytes_to_the_last_bit(found):
    assert found["dequantize"] and not any(found["dequantize"].values()), found["dequantize"]


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_whole_decoders_are_found_right_by_doctor_prove(dtype):
    """LoRA and DoRA with dropout, and LoRA on a base in 4 bits."""
    tried = [
        "adapted_heads in_rotation 0", "adapted_mlp in_activation 1", "dropout in_products 2",
        "adapted_heads in_rotation 3", "adapted_mlp in_activation 4", "dropout in_products 5",
        "dequantize in_one_launch 6",
    ]  # fmt: skip
    assert interpreted("decoders", dtype) == dict.fromkeys(tried, "right")


def test_where_triton_runs(monkeypatch):
    card = Target(torch.device("cuda"), torch.bfloat16)
    for capability, runs in (((7, 0), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device, it=capability: it)
        assert triton_code.runs(card) is runs
    assert not triton_code.runs(Target(torch.device("cpu"), torch.bfloat16))


def test_triton_needs_a_c_compiler(monkeypatch):
    card = Target(torch.device("cuda"), torch.bfloat16)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (8, 0))
    monkeypatch.setattr(triton_code.shutil, "which", lambda name: name == "clang" or None)
    assert triton_code.runs(card)
    monkeypatch.setattr(triton_code.shutil, "which", lambda _name: None)
    assert not triton_code.runs(card) and triton_code.missing() == "there is no C compiler"
    monkeypatch.setenv("CC", "/opt/cc")
    assert triton_code.runs(card)
    monkeypatch.setattr(triton_code, "find_spec", lambda _name: None)
    assert not triton_code.runs(card) and triton_code.missing() == "Triton is not installed"
