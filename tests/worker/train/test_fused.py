"""Experts in one pass through their base: each equals its run alone."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from plans import example_plan
from safetensors.torch import load
from scene import DEFAULTS, Ran, put_data, rows, save_base, train
from tiny import EVERY_LINEAR

from expert_worker.errors import ExpertError, Failed, Interrupted
from expert_worker.events import Events
from expert_worker.train import stage
from expert_worker.train.fused import FusedGroup

STEPS = "recipe.schedule.duration"
EVALUATION = "recipe.evaluation"


def steps(count: int) -> dict[str, Any]:
    return {"unit": "steps", "value": count}


@pytest.fixture(autouse=True)
def data(monkeypatch):
    put_data(monkeypatch, validation=rows(4, seed=9))


@dataclass
class Trial:
    """One expert of a group: its changes to the plan, and what became of it."""

    name: str
    changes: dict[str, Any]
    listen: Any = None
    error: BaseException | None = None
    ran: Ran = field(default_factory=lambda: Ran({}))


def fused(folder: Path, *trials: Trial) -> dict[str, Trial]:
    folder.mkdir(exist_ok=True)
    save_base(folder / "base")
    group = FusedGroup()
    threads = []
    for trial in trials:
        output = folder / trial.name
        plan = example_plan(folder, {**DEFAULTS, "machine.paths.output": str(output), **trial.changes})
        events, memory = Events.in_memory()
        if trial.listen is not None:
            def write(event, line, trial=trial, events=events):
                trial.listen(events, event)

            events.attach(SimpleNamespace(write=write, close=lambda: None))
        trial.ran = Ran({}, memory.events, output)
        member = group.member(trial.name)

        def work(trial=trial, plan=plan, events=events, member=member):
            try:
                result = group.carry_out(member, lambda: stage.run(plan, events, member))
                trial.ran.result = json.loads(json.dumps(result))
            except BaseException as error:
                trial.error = error

        threads.append(threading.Thread(target=work, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return {trial.name: trial for trial in trials}


def assert_equal(one: Ran, other: Ran, tolerance: float = 1e-5) -> None:
    assert one.result["steps"] == other.result["steps"]
    torch.testing.assert_close(one.losses, other.losses, rtol=tolerance, atol=tolerance)
    assert one.rates == other.rates
    ours, theirs = (load(ran.final("adapter_model.safetensors")) for ran in (one, other))
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=tolerance, atol=tolerance)
    assert one.final("adapter_config.json") == other.final("adapter_config.json")


UNLIKE = {
    "a": {STEPS: steps(6)},
    "b": {
        STEPS: steps(9),
        "recipe.seed": 8,
        "recipe.adapter.rank": 7,
        "recipe.adapter.target_modules": ["q_proj", "v_proj", "down_proj"],
        "recipe.optimizer.learning_rate": 0.003,
        "machine.micro_batch": 1,
        "machine.accumulation": 2,
    },
    "c": {STEPS: steps(4), "recipe.adapter.dropout": 0.2, "recipe.adapter.kind": "rslora"},
}


def test_unlike_experts_equal_their_runs_alone(tmp_path):
    done = fused(tmp_path, *(Trial(name, changes) for name, changes in UNLIKE.items()))
    for name, changes in UNLIKE.items():
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, changes, output=f"{name}-alone"))
