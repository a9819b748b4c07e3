"""`python -m benches.gpu` on the stand-in driver: every part runs to a whole result, marked as not measured.

Our side runs without values, as Triton's kernels are not computed, so checks of equality do not hold. TRL's
reads values and has them (computed.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import ROOT, RTX_4090, Driver

pytestmark = [pytest.mark.timeout(900), pytest.mark.full]
KINDS = ("lora", "lora with dropout", "dora", "dora with dropout", "qlora")
CASES = ("lora-2x64", "dora-4x64", "qlora-8x64")
# The benchmark itself does not load the driver; the programs that it starts do.
START = (
    "import sys, runpy; sys.executable = sys.argv.pop(1); "
    "runpy.run_module('benches.gpu', run_name='__main__', alter_sys=True)"
)


def benchmark(driver: Driver, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = driver.python(folder)
    program = Path(__file__).with_name("preloaded.py")
    script.write_text(script.read_text().replace('"$@"', f'"{program}" "$@"'))
    places = {"PYTHONPATH": str(ROOT / "worker" / "python"), "COMPUTED": "with_trl.py"}
    return subprocess.run(
        [sys.executable, "-c", START, script, "--minutes", "30", *options],
        env=driver.for_cli(RTX_4090) | places,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_part_runs(driver: Driver, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    only = (*CASES, "fused-lora")
    done = benchmark(driver, tmp_path, "--tiny", "--only", *only, "--output", str(output))
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stdout + done.stderr
    found = json.loads(output.read_text())
    assert found["device"] == RTX_4090.name and found["multiplies"] is False and not found["ok"]
    assert done.stdout.startswith("NOT A MEASUREMENT: ") and found["invalid"]
    assert "NOT A MEASUREMENT: " in output.with_suffix(".svg").read_text()
    checks = found["equality"]
    assert {(row["kind"], row["dtype"]) for row in checks} == {
        (k, d) for k in KINDS for d in ("fp32", "bf16")
    }
    assert not [row for row in checks if "why" in row] and "equality_failed" not in found
    # Each takes as long as all other checks of its kind.
    compiled = [(row["kind"], row["dtype"]) for row in checks if row["way"] == "compiled"]
    assert sorted(compiled) == [("lora", "bf16"), ("lora", "fp32")]
    assert found["peak_operations"] > 0 and found["copied_bytes"] > 0 and found["launch_seconds"] > 0
    assert [case["name"] for case in found["cases"]] == list(CASES)
    for case in found["cases"]:
        assert case["ours"]["applied"]["path"] == "fast" and case["ours"]["peak_bytes"] > 0
        assert case["trl"]["peak_bytes"] > 0, case
        assert case["speed_of_trl"] > 0 and case["share_of_measured_peak"] > 0
        assert case["peak_of_estimate"] > 0 and case["name"] in done.stdout
    (together,) = found["fused"]
    assert together["gains"].keys() == {"2", "4"} and "fused-lora-1x32" in done.stdout
    assert found["cases"][2]["ours"]["applied"]["base.quantization"] == "int4"


def test_not_kept_as_a_result(driver: Driver, tmp_path: Path) -> None:
    output = ROOT / "benches" / "results" / "2000-01-01-gpu-stand-in.json"
    options = ("--tiny", "--only", "lora-2", "--no-equality", "--alone", "--output", str(output))
    done = benchmark(driver, tmp_path, *options)
    assert done.returncode == 3 and "is not written" in done.stderr, done.stdout + done.stderr
    assert not output.exists() and not output.with_suffix(".svg").exists()
