"""The real training stage, with a second process that runs out of memory in the second layer wherever a batch
has many tokens: in the forward or the backward pass, by EXPERT_TEST_TIGHT."""

import os
from typing import Any

import expert_test_training
import torch

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.process.rank import RANK
from expert_worker.train import engine

TOKENS = 60  # With padding.


def run(plan: Plan, events: Events) -> Any:
    if os.environ.get(RANK) == "1":
        build = engine.build

        def tight(plan: Plan, model: Any, *more: Any, **named: Any) -> engine.Engine:
            layer = model.get_base_model().model.layers[1]
            layer.register_forward_pre_hook(_refuse, with_kwargs=True)
            return build(plan, model, *more, **named)

        engine.build = tight
    return expert_test_training.run(plan, events)


def _refuse(_module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    hidden = inputs[0] if inputs else named["hidden_states"]
    if hidden.shape[0] * hidden.shape[1] <= TOKENS:
        return
    if os.environ["EXPERT_TEST_TIGHT"] == "forward":
        _run_out()
    if hidden.requires_grad:
        hidden.register_hook(_run_out)


def _run_out(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory")
