"""On a GPU the loss and norm of a step are read while the next step is computed. Forced here on a CPU, where
the figures can be compared with those of a run that reads at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from scene import put_data, rows, train

from expert_worker.errors import Failed, Interrupted
from expert_worker.train.engine import FastEngine
from expert_worker.train.trainer import GradientAccumulator, StepResult, StepTiming, Trainer

FUSED: dict[str, Any] = {
    "recipe.optimizer.name": "adamw_torch_fused",
    "recipe.schedule.duration": {"unit": "steps", "value": 6},
    "recipe.saving": {"strategy": "steps", "steps": 4},
}
FINAL = "adapter_model.safetensors"
_accumulate, _prepared, _backward = (
    GradientAccumulator.accumulate,
    Trainer.__post_init__,
    FastEngine.backward,
)


@pytest.fixture(autouse=True)
def data(monkeypatch):
    put_data(monkeypatch, validation=rows(4, seed=9))


def late(monkeypatch) -> list[int]:
    """Steps are read late; the steps that had been launched when each was read."""
    launched: list[int] = []

    def prepared(self):
        _prepared(self)
        self.reads_late = True

    def accumulate(self, step, *rest):
        result = _accumulate(self, step, *rest)
        launched.append(step)
        if not result.finished:
            return result
        sums = result.weight, result.tokens, result.supervised, result.data_wait, StepTiming()
        return StepResult(torch.tensor(result.loss_sum), *sums)

    monkeypatch.setattr(Trainer, "__post_init__", prepared)
    monkeypatch.setattr(GradientAccumulator, "accumulate", accumulate)
    return launched


def sick_at(monkeypatch, *steps: int) -> None:
    def sick(self, batch, scale):
        loss = _backward(self, batch, scale)
        return loss * float("nan") if batch.step in steps else loss

    monkeypatch.setattr(FastEngine, "backward", sick)


def reported(ran) -> list[Any]:
    """What a run reports of its steps, without times."""
    steps = [
        (body.step, body.loss, body.grad_norm, body.lr, body.tokens, body.epoch)
        for body in ran.of("progress")
    ]
    return [*steps, [body.detail for body in ran.of("recovered")], ran.result["train_loss"]]


def both(tmp_path, monkeypatch, changes: dict[str, Any], *sick: int) -> tuple[Any, Any]:
    with monkeypatch.context() as patched:
        sick_at(patched, *sick)
        at_once = train(tmp_path, FUSED | changes, output="at-once")
    with monkeypatch.context() as patched:
        sick_at(patched, *sick)
        late(patched)
        return at_once, train(tmp_path, FUSED | changes, output="late")


@pytest.mark.parametrize(
    "sick", [pytest.param((), marks=pytest.mark.full), (2, 4)], ids=["finite", "two are not"]
)
def test_nothing_but_the_time_of_reading_differs(tmp_path, monkeypatch, sick):
    at_once, read_late = both(tmp_path, monkeypatch, {}, *sick)
    assert reported(read_late) == reported(at_once) and len(reported(at_once)) >= 6
    assert read_late.final(FINAL) == at_once.final(FINAL)
    totals = [
        json.loads((ran.output / "checkpoint-4/state.json").read_text())["facts"]["totals"] | {"seconds": 0.0}
        for ran in (at_once, read_late)
    ]
    assert totals[0] == totals[1]


def test_a_step_is_read_while_the_next_is_computed(tmp_path, monkeypatch):
    launched = late(monkeypatch)
    read: list[tuple[int, int]] = []
    report = Trainer._report

    def reported(self, done, *rest):
        read.append((done, launched[-1] + 1))
        report(self, done, *rest)

    monkeypatch.setattr(Trainer, "_report", reported)
    train(tmp_path, FUSED)
    # Step 4 is saved, and 6 is the last.
    assert read == [(1, 2), (2, 3), (3, 4), (4, 4), (5, 6), (6, 6)]


def test_three_steps_that_are_not_finite_stop_it_at_the_same_step(tmp_path, monkeypatch):
    sick_at(monkeypatch, 1, 2, 3)
    late(monkeypatch)
    seen = []
    with pytest.raises(Failed, match=r"3 steps in a row.*that of step 1"):
        train(tmp_path, FUSED, listen=lambda events, event: seen.append(event.body))
    assert [b.step for b in seen if b.type == "recovered"] == [2, 3, 4]
    assert (tmp_path / "out" / "checkpoint-4" / "state.json").exists()


@pytest.mark.parametrize("at", [2, pytest.param(3, marks=pytest.mark.full)])
def test_a_stop_loses_no_step_and_resumes_to_the_same_bytes(tmp_path, monkeypatch, at):
    whole = train(tmp_path, FUSED, output="whole")
    late(monkeypatch)
    seen: list[Any] = []

    def stop(events, event):
        seen.append(event.body)
        if event.body.type == "progress" and event.body.step == at:
            events.stop.request(terminated=False)

    with pytest.raises(Interrupted):
        train(tmp_path, FUSED, listen=stop)
    first = [body for body in seen if body.type == "progress"]
    on = train(tmp_path, {**FUSED, "request.resume": {"from": "newest"}})
    assert [b.step for b in [*first, *on.of("progress")]] == list(range(1, 7))
    assert [b.loss for b in [*first, *on.of("progress")]] == whole.losses
    assert on.final(FINAL) == whole.final(FINAL)


def test_a_retry_is_reported_after_the_step_before_it(tmp_path, monkeypatch):
    def tight(self, batch, scale):
        if batch.step == 2 and len(batch.lengths) > 4:
            raise torch.OutOfMemoryError("out of memory")
        return _backward(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", tight)
    late(monkeypatch)
    ran = train(tmp_path, FUSED | {"machine.micro_batch": 4})
    kinds = [(e.body.type, e.body.step) for e in ran.events if e.body.type in ("progress", "recovered")]
    assert kinds[:3] == [("progress", 1), ("progress", 2), ("recovered", 3)] and len(kinds) >= 7


def test_an_error_keeps_the_record_of_the_step_before_it(tmp_path, monkeypatch):
    def broken(self, batch, scale):
        if batch.step == 3:
            raise ValueError("broken")
        return _backward(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", broken)
    late(monkeypatch)
    seen: list[Any] = []
    with pytest.raises(ValueError, match="broken"):
        train(tmp_path, FUSED, listen=lambda events, event: seen.append(event.body))
    assert [b.step for b in seen if b.type == "progress"] == [1, 2, 3]
