"""`python -m benches.experts`: the scores of several seeds, and its command line."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from defaults import ROOT

sys.path.insert(0, str(ROOT / "benches"))
from seeds import of_seeds, scores_of


def evaluation(right: dict[str, int]) -> dict[str, Any]:
    """Ten rows of each level."""
    share = sum(right.values()) / (10 * len(right))
    return {
        "rows": 10 * len(right),
        "base": {"accuracy": 0.1, "loss": 2.0},
        "adapter": {"accuracy": share, "loss": 0.5},
        "by_level": [
            {"name": level, "adapter": {"correct": found, "total": 10}} for level, found in right.items()
        ],
    }


def test_seeds_are_averaged_and_their_answers_added_by_level() -> None:
    runs = {
        seed: {"steps": 3, "sets": {"test": scores_of(evaluation(right))}}
        for seed, right in ((42, {"1": 8, "2": 4}), (43, {"1": 6, "2": 3}), (44, {"1": 10, "2": 5}))
    }
    found = of_seeds(runs)
    mean = found["mean"]["test"]
    assert mean["adapter"] == pytest.approx(0.6)
    assert (mean["lowest"], mean["highest"]) == pytest.approx((0.45, 0.75))
    assert mean["base"] == pytest.approx(0.1)
    assert mean["levels"] == {"1": {"right": 24, "rows": 30}, "2": {"right": 12, "rows": 30}}
    assert found["seeds"]["43"] == runs[43]


def test_an_unknown_expert_is_refused_before_anything_is_trained() -> None:
    command = [sys.executable, "-m", "benches.experts", "expert-sqll"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no expert expert-sqll; there are expert-json, " in done.stderr


def test_what_a_run_scored_is_kept_for_as_many_rows(tmp_path: Path) -> None:
    (run := tmp_path / "expert-sql-42").mkdir()
    (run / "final").mkdir()
    (run / "final" / "adapter_model.safetensors").write_bytes(b"weights")
    found = {"steps": 3, "sets": {"test": scores_of(evaluation({"1": 8}))}}
    asked = {"model": "smollm2-135m", "rows": 128, "steps": None}
    adapter = hashlib.sha256(b"weights").hexdigest()
    (run / "measured.json").write_text(json.dumps({"asked": asked, "adapter": adapter, "found": found}))
    command = [sys.executable, "-m", "benches.experts", "expert-sql", "--seeds", "42", "--output", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["results"]["experts"]["expert-sql"]["seeds"] == {"42": found}
    # Other rows, or another adapter, would be scored: the command that does so is not there.
    missing = {**os.environ, "EXPERT_CLI": str(tmp_path / "none")}
    for change in (["--rows", "64"], []):
        if not change:
            (run / "final" / "adapter_model.safetensors").write_bytes(b"others")
        done = subprocess.run([*command, *change], cwd=ROOT, env=missing, capture_output=True, check=False)
        assert done.returncode != 0
