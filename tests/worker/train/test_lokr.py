"""LoKr drops rows of its update, for all tokens alike: once a step, whatever the micro-batch."""

from __future__ import annotations

import pytest
from scene import put_data, rows, train

LOKR = {
    "recipe.adapter.kind": "lokr",
    "recipe.adapter.dropout": 0.4,
    "recipe.batch.rows_per_step": 4,
    "recipe.saving.strategy": "no",
    "recipe.schedule.duration": {"unit": "steps", "value": 3},
}


def losses(folder, monkeypatch, micro, **more):
    put_data(monkeypatch, rows(12))
    sizes = {"machine.micro_batch": micro, "machine.accumulation": 4 // micro}
    return train(folder, {**LOKR, **sizes, **more}, output=f"out-{micro}").losses


def test_dropout_does_not_depend_on_the_micro_batch(tmp_path, monkeypatch):
    whole, parts = (losses(tmp_path, monkeypatch, micro) for micro in (4, 1))
    assert parts == pytest.approx(whole, rel=1e-5)


def test_dropout_moves_the_losses_once_there_is_an_update(tmp_path, monkeypatch):
    dropped = losses(tmp_path, monkeypatch, 4)
    kept = losses(tmp_path, monkeypatch, 2, **{"recipe.adapter.dropout": 0.0})
    assert dropped[0] == pytest.approx(kept[0], rel=1e-5)  # The update is zero at the start.
    assert dropped[1:] != pytest.approx(kept[1:], rel=1e-5)


def test_the_plain_path_names_the_adapter_where_the_plan_already_takes_it(tmp_path, monkeypatch):
    put_data(monkeypatch, rows(12))
    ran = train(tmp_path, {**LOKR, "machine.fast_path": False})
    note = next(body.note for body in ran.of("applied") if body.key == "path")
    assert "torch's own generator" in note
