"""The benchmark for GPUs runs end to end on a CPU with a tiny shape."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("gpu_shapes", REPOSITORY / "benches" / "gpu" / "shapes.py")
SHAPES = importlib.util.module_from_spec(SPEC)
sys.modules["gpu_shapes"] = SHAPES  # Where dataclasses look their annotations up.
SPEC.loader.exec_module(SHAPES)


def gpu(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "worker" / "python"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benches.gpu", "--device", "cpu", "--tiny", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=REPOSITORY, timeout=280
    )


@pytest.mark.full
@pytest.mark.timeout(300)
def test_it_checks_and_measures_and_compares(tmp_path):
    done = gpu(tmp_path, "--only", "qlora-2", "fused-qlora", "--output", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["ok"] and result["versions"]["torch"] and result["device"] == "CPU"
    ways = {(row["kind"], row["dtype"], row["way"]) for row in result["equality"]}
    # Of each adapter and precision, every kernel that this device has.
    kinds = ("lora", "lora with dropout", "dora", "dora with dropout", "qlora")
    assert {way[:2] for way in ways} == {(kind, dtype) for kind in kinds for dtype in ("fp32", "bf16")}
    assert len(ways) >= 60 and all(row["ok"] for row in result["equality"])
    picture = (tmp_path / "out.svg").read_text()
    assert "NOT A MEASUREMENT: tiny shapes" in picture and ">TRL<" in picture
    (together,) = result["fused"]
    assert together["gains"].keys() == {"2", "4"} and min(together["tokens_per_second"].values()) > 0
    assert "fused-qlora-1x32" in done.stdout and "4 experts" in done.stdout
    (case,) = result["cases"]
    assert case["name"] == "qlora-2x64" and case["ours"]["applied"]["base.quantization"] == "int4"
    assert case["speed_of_trl"] == case["ours"]["tokens_per_second"] / case["trl"]["tokens_per_second"]
    # The versions beside the figures are those of the Python that ran it.
    assert case["trl"]["versions"]["trl"] and result["not_installed"] == ["unsloth", "axolotl"]
    assert case["share_of_measured_peak"] > 0 and case["plan"]["estimate_bytes"] > 0
    assert case["peak_of_estimate"] is None  # Resident size on a CPU does not measure it.
    said = f"{len(ways)} of {len(ways)} fast paths equal the plain one"
    assert said in done.stdout and "qlora-2x64" in done.stdout


@pytest.mark.full
def test_what_does_not_fit_into_the_time_is_named(tmp_path):
    words = ("--only", "lora-2", "--no-equality", "--minutes", "0.01", "--output", str(tmp_path / "out.json"))
    done = gpu(tmp_path, *words)
    assert done.returncode == 1 and "s were left" in done.stdout
    assert "left_out" in json.loads((tmp_path / "out.json").read_text())["cases"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cli", "/nowhere/expert-cli"), "there is no expert-cli"),
        (("--only", "nothing"), "names no case"),
        (("--output", "out.svg"), "--output names the JSON"),
        (("--unsloth", "/nowhere/python"), "--unsloth: /nowhere/python does not run"),
        (("--axolotl", sys.executable), "has no Axolotl: name a Python that has"),
    ],
)
def test_what_is_missing_is_named(tmp_path, words, said):
    done = gpu(tmp_path, *words)
    assert done.returncode == 3 and said in done.stderr and "Traceback" not in done.stderr


def test_the_floor_is_that_of_the_aim():
    """About 298k tokens per second at 790 TFLOP/s, on packed rows of 2,048."""
    assert 790e12 / SHAPES.QWEN_06B.operations_a_token(1024) == pytest.approx(298e3, rel=0.05)
    names = [it.name for it in SHAPES.cases(tiny=False)]
    assert len(names) == 9 and names[-3:] == ["lora-16x2048", "dora-16x2048", "qlora-16x2048"]
