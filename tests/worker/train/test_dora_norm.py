"""DoRA's row norm follows the adapter under every optimizer: at each step, after evaluations and resumes."""

from __future__ import annotations

import shutil
import typing
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from scene import put_data, rows, train
from torch import nn

from expert_worker.errors import BadInput
from expert_worker.plan import OptimizerName
from expert_worker.train.fast.kernels.adapted_linear.dora import FUSED_DORA, RowNorm
from expert_worker.train.fast.kernels.adapted_linear.layer import LayerKernels
from expert_worker.train.fast.kernels.dequantize import by_bitsandbytes
from expert_worker.train.fast.kernels.dropout import DROPOUT
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


def test_on_a_bf16_base_it_begins_as_the_base(tmp_path):
    """Its first loss is that of LoRA, whose B is zero, for fp32 magnitudes and for their rounded product."""
    one_step = {"recipe.schedule.duration": {"unit": "steps", "value": 1}, "machine.dtype": "bf16"}
    losses = {
        (kind, fast): train(
            tmp_path,
            {**DORA, **one_step, "recipe.adapter.kind": kind, "machine.fast_path": fast},
            output=f"{kind}-{fast}",
        ).losses
        for kind in ("lora", "dora")
        for fast in (True, False)
    }
    assert losses["dora", True] == losses["lora", True]
    assert losses["dora", False] == pytest.approx(losses["lora", False], rel=1e-4)


@pytest.mark.parametrize("share", [1.001, 0.999])
def test_a_magnitude_counts_that_moved_by_less_than_the_steps_of_bf16_near_1(share):
    torch.manual_seed(2)
    base = nn.Linear(256, 64, bias=False, dtype=torch.bfloat16)
    config = LoraConfig(r=4, lora_alpha=4, use_dora=True, target_modules=["0"])
    layer: Any = get_peft_model(nn.Sequential(base), config).base_model.model[0]
    down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    nn.init.normal_(up, std=0.01)
    whole = base.weight.detach().double() + up.detach().double() @ down.detach().double()
    layer.lora_magnitude_vector["default"].weight.data = (whole.norm(dim=1) * share).float()
    x = torch.randn(2048, 256, dtype=torch.bfloat16)
    unscaled = x.double() @ whole.t()
    fused = FUSED_DORA.function(layer, LayerKernels(DROPOUT.kernels[-1].function, by_bitsandbytes))
    ours, of_peft = fused(x).double(), layer(x).double()
    measured = (ours * unscaled).sum() / unscaled.square().sum()
    assert float(measured) == pytest.approx(share, abs=2e-4)
    far = [float((found - unscaled * share).norm()) for found in (ours, of_peft)]
    assert far[0] < 1.02 * far[1]
