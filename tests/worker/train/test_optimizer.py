"""A run with `paged_adamw_32bit` may change its device: bitsandbytes on CUDA, torch's AdamW elsewhere."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import bitsandbytes
import pytest
import torch
from plans import example_plan
from tiny import apart, lora

from expert_worker.events import Events
from expert_worker.plan import OptimizerName
from expert_worker.train import optimizer
from expert_worker.train.adapter import trained
from expert_worker.train.checkpoints import Stateful
from expert_worker.train.precision import LossScale

ADAMW = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
# The unpaged class of bitsandbytes keeps the same state as the paged one, and steps on a CPU.
MAKERS: dict[str, Any] = {"bitsandbytes": bitsandbytes.optim.AdamW32bit, "torch": torch.optim.AdamW}


class Saved:
    """A checkpoint's parts, as a run loads them."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    def tensors(self, name: str) -> dict[str, torch.Tensor]:
        return {key: tensor.clone() for key, tensor in self._parts[name].items()}

    def json(self, name: str) -> Any:
        return self._parts[name]


def step(model: Any, optimizer: torch.optim.Optimizer, number: int) -> None:
    draw = torch.Generator().manual_seed(number)
    for parameter in trained(model).values():
        parameter.grad = torch.randn(parameter.shape, generator=draw)
    optimizer.step()


@pytest.mark.parametrize("before", sorted(MAKERS))
@pytest.mark.parametrize("after", sorted(MAKERS))
def test_adamw_in_32_bits_resumes_with_either_optimizer(before: str, after: str) -> None:
    whole = lora()
    optimizer = torch.optim.AdamW(trained(whole).values(), **ADAMW)
    for number in range(4):
        step(whole, optimizer, number)

    model = lora()
    optimizer = MAKERS[before](trained(model).values(), **ADAMW)
    for number in range(2):
        step(model, optimizer, number)
    saved = Saved(Stateful(model, optimizer, LossScale()).capture("tiny"))
    model = lora()
    optimizer = MAKERS[after](trained(model).values(), **ADAMW)
    Stateful(model, optimizer, LossScale()).restore(saved)  # type: ignore[arg-type]
    for number in range(2, 4):
        step(model, optimizer, number)

    wanted = trained(whole)
    assert max(apart(found, wanted[name]) for name, found in trained(model).items()) < 1e-6
    assert optimizer.param_groups[0]["weight_decay"] == ADAMW["weight_decay"]


@pytest.mark.parametrize("name", [name for name in typing.get_args(OptimizerName) if "paged" not in name])
def test_the_first_step_allocates_what_was_reserved_for_it(name: OptimizerName, tmp_path: Path) -> None:
    """A large matrix, whose moments bitsandbytes keeps in 8 bits, and a small one."""
    large, small = (torch.nn.Parameter(torch.randn(rows, 64)) for rows in (128, 3))
    plan = example_plan(tmp_path).recipe.optimizer.model_copy(update={"name": name})
    made = optimizer.build(plan, [large, small], Events.in_memory()[0])
    for parameter in (large, small):
        parameter.grad = torch.randn_like(parameter)
    made.step()
    kept = [value for state in made.state.values() for value in state.values() if torch.is_tensor(value)]
    # Steps and the tables of 8-bit numbers are small, and the latter one for all parameters.
    found = sum(it.numel() * it.element_size() for it in kept if it.numel() > 1 and it.numel() != 256)
    assert found == optimizer.state_bytes(name, [large, small])
