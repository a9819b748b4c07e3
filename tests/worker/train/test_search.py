"""A search with real training: the learning rate at which a tiny base learns wins over a useless one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from defaults import cli, save_base
from learnt import assert_learnt

SLOW, QUICK = 1e-6, 0.02
STEPS = 45


def write_rows(path: Path, numbers: range) -> None:
    rows = [{"prompt": f"is {number} a number", "completion": "yes"} for number in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    write_rows(folder / "train.jsonl", range(16))
    write_rows(folder / "validation.jsonl", range(16, 22))
    sizes = {"max_steps": STEPS, "batch_size": 2, "max_seq_length": 64}
    config = {"learning_rate": SLOW, "rank": 4, "alpha": 8, **sizes}
    manifest = {
        "name": "expert-sayer",
        "version": "1.0.0",
        "schema_version": "2.0",
        "description": "Says yes.",
        "base_models": [{"name": str(save_base(folder / "base"))}],
        "training": {
            "dataset": {"path": "train.jsonl", "validation_path": "validation.jsonl"},
            "config": config,
            "decoding": {"max_new_tokens": 8},
        },
        "evaluation": {"scorer": "exact"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_rate_that_learns_wins(expert: Path) -> None:
    words = ["search", "-m", expert, "--space", f"lr={SLOW:g}|{QUICK:g}", "--budget", "3", "--device", "cpu"]
    environment = {**os.environ, "EXPERT_PYTHON": sys.executable, "EXPERT_HOME": str(expert / "home")}
    command = [
        str(word) for word in (cli(), *words, "-o", expert / "found", "--allow-path", expert, "--json")
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    won = found["trials"][found["winner"]]
    assert [one["value"] for one in won["settings"]] == [QUICK]
    last, own = won["scores"][-1], found["trials"][0]["scores"][-1]
    assert (last["rung"], own["rung"], last["steps"]) == (2, 2, STEPS)
    assert (last["share"]["accuracy"], own["share"]["accuracy"]) == (1.0, 0.0)
    assert last["validation_loss"] < own["validation_loss"] - 1
    assert (found["comparison"]["better"], found["comparison"]["worse"]) == (6, 0)
    rung = expert / "found" / f"trial-{found['winner']}" / "rung-3"
    assert_learnt(rung)
    assert json.loads((rung / "evaluation.json").read_text())["base"] is None, "nothing reads its answers"
    assert "<h2" in (rung / "report.html").read_text()
