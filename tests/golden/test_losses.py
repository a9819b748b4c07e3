"""Fifty steps of a tiny run, loss by loss.

Exact where torch and the CPU's instruction set are those of a recording; within 1e-5 anywhere else. After a
change that is meant to move the numbers: `EXPERT_RECORD_GOLDEN=1 pytest tests/golden`, and say why in the
commit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from scene import put_data, rows, train

HERE = Path(__file__).parent
RUNS = {
    "lora": {},
    "dora_dropout": {"recipe.adapter.kind": "dora", "recipe.adapter.dropout": 0.1},
    "ia3": {
        "recipe.adapter.kind": "ia3", "recipe.adapter.rank": None, "recipe.adapter.alpha": None,
        "recipe.adapter.feedforward_modules": ["down_proj"],
    },
}  # fmt: skip


def recording(name: str) -> Path:
    return HERE / f"{name}.json"


def place() -> str:
    return f"torch {torch.__version__.split('+')[0]}, {torch.backends.cpu.get_cpu_capability()}"


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_the_recorded_ones(name, tmp_path, monkeypatch):
    put_data(monkeypatch, rows(24))
    changes = {"recipe.schedule.duration": {"unit": "steps", "value": 50}, "recipe.saving.strategy": "no"}
    ran = train(tmp_path, {**changes, **RUNS[name]})
    assert len(ran.losses) == 50
    path = recording(name)
    if os.environ.get("EXPERT_RECORD_GOLDEN"):
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, place(): ran.losses}, indent=1) + "\n")
    known = json.loads(path.read_text())
    if place() in known:
        assert ran.losses == known[place()]
    for losses in known.values():
        assert ran.losses == pytest.approx(losses, rel=1e-5)
