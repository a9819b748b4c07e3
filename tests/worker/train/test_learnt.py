"""The check that a run learnt fails where nothing is learnt: without gradients, and without steps."""

from __future__ import annotations

import json

import pytest
import torch
from learnt import assert_learnt, assert_moved
from scene import put_data, train

from expert_worker.train.dataset import InMemory

SHORT = {"recipe.schedule.duration": {"unit": "steps", "value": 2}}


def test_rows_that_give_no_gradient_are_noticed(tmp_path, monkeypatch):
    padding = [([0, 0, 0], [0, 0, 0])]
    put_data(monkeypatch, InMemory([padding] * 8))
    with pytest.raises(AssertionError, match=r"0\.0"):
        train(tmp_path, SHORT)


def test_an_optimizer_that_does_nothing_is_noticed(tmp_path, monkeypatch):
    put_data(monkeypatch)
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *_: None)
    with pytest.raises(AssertionError, match="lora_B"):
        train(tmp_path, SHORT)


def test_a_recorded_run_is_held_against_its_losses_too(tmp_path, monkeypatch):
    put_data(monkeypatch)
    ran = train(tmp_path, SHORT)
    assert_moved(ran.output)

    def record(*losses: float) -> None:
        steps = [
            {"type": "progress", "step": step, "loss": loss, "grad_norm": 0.5}
            for step, loss in enumerate(losses)
        ]
        lines = [json.dumps({"body": body}) for body in steps]
        (ran.output / "events.jsonl").write_text("\n".join(lines))

    record(4.0, 3.9, 3.5, 3.4)
    assert_learnt(ran.output)
    record(4.0, 3.9, 4.0, 3.9)
    with pytest.raises(AssertionError):
        assert_learnt(ran.output)
