"""What `doctor` and `plan` say of a driver that is too old for torch, and of questions that NVML refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from card_trial import BASES, CLI, manifest_of, write_base
from stand_in import MIG, RTX_4090, T4, V100, Driver

pytestmark = pytest.mark.timeout(300)
# NVML's numbers for its errors.
NOT_SUPPORTED, NO_PERMISSION, MISMATCH = "3", "4", "18"


def doctor(driver: Driver, folder: Path, variables: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Its checks by name; a variable that is empty is left out of the environment."""
    environment = driver.for_cli(RTX_4090) | variables
    command = [CLI, "--python", driver.python(folder), "doctor", "--json"]
    present = {name: text for name, text in environment.items() if text}
    done = subprocess.run(command, env=present, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_versions_of_driver_and_torch(driver: Driver, tmp_path: Path) -> None:
    """A MIG slice's utilization is unknown, which harms nothing."""
    found = doctor(driver, tmp_path, MIG.variables())["GPU driver"]
    assert found["status"] == "good"
    assert found["found"].startswith("595.00, supports CUDA 13.2; torch is built for CUDA 13.")
    assert "(driver 580 or newer); NVML does not say the utilization of GPU 0" in found["found"]


def test_a_driver_too_old_for_torch(driver: Driver, tmp_path: Path) -> None:
    checks = doctor(driver, tmp_path, {"FAKENVML_DRIVER": "550.90.07", "FAKENVML_CUDA": "12040"})
    found = checks["GPU driver"]
    assert found["status"] == "warning" and found["found"].startswith("550.90.07, supports CUDA 12.4")
    what = "'torch>=2.11' --index-url https://download.pytorch.org/whl/cu126`"
    line = f" -m pip install --force-reinstall {what}, or with uv `uv pip install --python "
    assert "update the driver to 580 or newer, or install a torch for CUDA 12: `" in found["fix"]
    assert line in found["fix"] and found["fix"].endswith(f" --reinstall {what}")
    device = checks["device"]
    assert device["status"] == "warning" and "cannot use it" in device["found"] and line in device["fix"]


def test_a_card_that_torch_has_no_code_for(driver: Driver, tmp_path: Path) -> None:
    found = doctor(driver, tmp_path, V100.variables())["device"]
    assert found["status"] == "warning" and "capability 7.0" in found["found"]
    assert "has no code" in found["found"] and "/cu126`; until then use --device cpu" in found["fix"]
    script = (
        "from expert_worker.base import torch_device; from expert_worker.plan import Device\n"
        "from expert_worker.errors import Missing\n"
        "try: torch_device(Device(kind='cuda', index=0, name='a GPU', memory_bytes=None))\n"
        "except Missing as error: print(error.message, error.exit_code)\n"
    )
    for card, said in ((V100, "has no code for Tesla V100-SXM2-32GB (compute capability 7.0) 3"), (T4, "")):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=driver.environment(card),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip().endswith(said) and bool(done.stdout.strip()) == bool(said)


NEW, OLD = "NVIDIA GeForce RTX 5090|120|31.36|0|0", "NVIDIA GeForce GTX 1060|61|5.93|0|0"
NEWER = {"FAKENVML_DRIVER": "570.86.10", "FAKENVML_CUDA": "12080"}


@pytest.mark.parametrize("cards", [(NEW, OLD), (OLD, NEW)])
def test_a_torch_for_one_card_is_not_named_where_another_loses_its_code(
    driver: Driver, tmp_path: Path, cards: tuple[str, str]
) -> None:
    """No build of torch has code for both. The first one is the one that is planned for."""
    found = doctor(driver, tmp_path, {"FAKECUDA_CARDS": ";".join(cards)})["device"]
    assert found["status"] == "warning" and "GTX 1060" in found["found"] and "has no code" in found["found"]
    assert "CUDA_VISIBLE_DEVICES" in found["fix"] and "pip install" not in found["fix"]
    assert ("RTX 5090 (31.4 GiB, capability 12.0)" in found["found"]) is (cards[0] == NEW)
    assert ("RTX 5090" in found["fix"]) is (cards[0] == OLD)


def test_a_card_that_needs_a_newer_driver(driver: Driver, tmp_path: Path) -> None:
    """torch's build for this driver has no code for the card."""
    checks = doctor(driver, tmp_path, {"FAKECUDA_CARDS": NEW} | NEWER)
    assert checks["GPU driver"]["fix"] == "update the driver to 580 or newer"
    device = checks["device"]
    assert "cannot use it" in device["found"]
    assert device["fix"] == "update the driver to 580 or newer; until then use --device cpu"


@pytest.mark.full
def test_a_driver_that_no_supported_torch_runs_on(driver: Driver, tmp_path: Path) -> None:
    checks = doctor(driver, tmp_path, {"FAKENVML_DRIVER": "470.57", "FAKENVML_CUDA": "11040"})
    assert checks["GPU driver"]["fix"] == "update the driver to 580 or newer"
    assert checks["device"]["fix"].startswith("update the driver")


REFUSALS: dict[str, tuple[dict[str, str], str, str]] = {
    "not supported": ({"FAKENVML_FAILS": NOT_SUPPORTED}, "NVML refuses: ", "`nvidia-smi` uses the same"),
    "not allowed": ({"FAKENVML_FAILS": NO_PERMISSION}, "NVML refuses: ", "/dev/nvidia*"),
    "updated": ({"FAKENVML_FAILS": MISMATCH}, "NVML refuses: ", "restart the machine"),
    "card refused": ({"FAKENVML_NO_CARD": "1"}, "GPU 0 is refused: ", "/dev/nvidia*"),
    "no memory": ({"FAKENVML_NO_MEMORY": "1"}, "does not say GPU 0's memory", "--device cpu"),
    "no library": ({"LD_LIBRARY_PATH": ""}, "NVML is not found", "NVIDIA_DRIVER_CAPABILITIES"),
}


@pytest.mark.full
@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_of_nvml_is_one_line(driver: Driver, tmp_path: Path, case: str) -> None:
    variables, said, fix = REFUSALS[case]
    found = doctor(driver, tmp_path, variables)["GPU driver"]
    assert found["status"] == "warning" and said in found["found"] and fix in found["fix"]
    assert "\n" not in found["found"] + found["fix"]


@pytest.mark.parametrize("case", [case for case in REFUSALS if case != "no library"])
def test_plan_says_why_it_is_for_the_cpu(driver: Driver, tmp_path: Path, case: str) -> None:
    base = write_base(tmp_path / "base", BASES["tiny"])
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(str(base), {})))
    environment = driver.for_cli(RTX_4090) | REFUSALS[case][0]

    def plan(*options: str) -> subprocess.CompletedProcess[str]:
        command = [CLI, "plan", "--json", "-m", tmp_path, *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    document = json.loads(plan().stdout)
    assert document["plan"]["machine"]["device"]["kind"] == "cpu"
    (note,) = [note for note in document["notes"] if note["code"] == "gpu-refused"]
    assert "this run uses the CPU" in note["message"] and "doctor" in note["hint"]
    wanted = plan("--device", "cuda")
    assert wanted.returncode == 3 and "NVML" in wanted.stdout + wanted.stderr
    assert "gpu-refused" not in plan("--device", "cpu").stdout
