"""DoRA's row norm follows the adapter under every optimizer: at each step, after evaluations and resumes."""

from __future__ import annotations

import shutil
import typing

import pytest
import torch
from safetensors.torch import load_file
from scene import put_data, rows, train

from expert_worker.errors import BadInput
from expert_worker.plan import OptimizerName
from expert_worker.train.fast.kernels.adapted_linear.dora import RowNorm
from expert_worker.train.fast.weights import read

OPTIMIZERS = [name for name in typing.get_args(OptimizerName) if name != "muon"]
TARGETS = ["q_proj", "down_proj"]
# At rank 128 the matrices are large enough for bitsandbytes to keep their moments in 8 bits.
DORA = {
    "recipe.adapter.kind": "dora",
    "recipe.adapter.rank": 128,
    "recipe.adapter.target_modules": TARGETS,
    "recipe.saving.steps": 1,
    "machine.save_total_limit": None,
}


@pytest.fixture(autouse=True)
def data(monkeypatch):
    put_data(monkeypatch, rows(16), rows(3, seed=9))


def true_norm(norm: RowNorm, down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    weight = read(norm._base, torch.float32).double()
    return (weight + norm._scale * up.double() @ down.double()).norm(dim=1)


@pytest.fixture
def distances(monkeypatch):
    """Of each norm that a layer used from the true one, relative to it."""
    found: list[float] = []
    original = RowNorm.of

    def checked(self, down, up):
        used = original(self, down, up)
        with torch.no_grad():
            true = true_norm(self, down, up)
            found.append(float(((used - true).abs() / true).max()))
        return used

    monkeypatch.setattr(RowNorm, "of", checked)
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_its_steps_are_those_of_peft(name, tmp_path, distances, every_trial):
    steps = 20 if every_trial else 8
    recipe = {
        **DORA,
        "recipe.optimizer.name": name,
        "recipe.schedule.duration": {"unit": "steps", "value": steps},
        "recipe.saving.strategy": "no",
        "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": steps // 4,
    }
    fast = train(tmp_path, recipe, output="fast")
    layers = 2 * len(TARGETS)
    assert len(distances) >= layers * (2 * steps + 4) and max(distances) < 1e-6
    plain = train(tmp_path, {**recipe, "machine.fast_path": False}, output="plain")
    assert fast.applied["path"] == "fast" and plain.applied["path"] == "plain"
    assert all(body.grad_norm > 0 for body in fast.of("progress"))
    assert len(fast.losses) == len(set(fast.losses)) == steps
    assert fast.losses == pytest.approx(plain.losses, rel=1e-5)
    fast_evaluated, plain_evaluated = (
        [body.metrics["eval_loss"] for body in run.of("evaluated")] for run in (fast, plain)
    )
    assert fast_evaluated == pytest.approx(plain_evaluated, rel=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_resumed_at_any_step_it_gives_the_same_bytes(name, tmp_path, every_trial):
    three = {"recipe.schedule.duration": {"unit": "steps", "value": 3}}
    recipe = {**DORA, **three, "recipe.optimizer.name": name}
    whole = train(tmp_path, recipe, output="whole")
    first, last = (
        load_file(whole.output / place / "adapter_model.safetensors") for place in ("checkpoint-1", "final")
    )
    assert all(not torch.equal(first[key], last[key]) for key in last)
    for step in (1, 2) if every_trial else (1,):
        folder = tmp_path / f"from{step}"
        shutil.copytree(whole.output / f"checkpoint-{step}", folder / f"checkpoint-{step}")
        on = train(tmp_path, {**recipe, "request.resume": {"from": "newest"}}, output=folder.name)
        assert on.result["resumed_from"] == step
        assert on.losses == whole.losses[step:]
        assert on.final("adapter_model.safetensors") == whole.final("adapter_model.safetensors")


def test_muon_refuses_vectors(tmp_path):
    with pytest.raises(BadInput, match="matrices only"):
        train(tmp_path, {**DORA, "recipe.optimizer.name": "muon"})
