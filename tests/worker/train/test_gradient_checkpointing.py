"""Checkpointing on the plain path computes again what it says, and nothing else changes."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
import torch
from scene import put_data, rows, train
from tiny import apart, flat, gradients, lora

from expert_worker.train import gradient_checkpointing
from expert_worker.train.engine import PlainEngine
from expert_worker.train.fast.dropout import Place, install
from expert_worker.train.objective import SupervisedFineTuning


def counting(runs, part):
    return lambda *_: runs.update([part])


def walked(wanted):
    """Gradients, how often a projection of attention and one of the MLP ran, and what is in force."""
    model, place, runs = lora(dropout=0.2), Place(), Counter()
    install(model, place)
    inforce = gradient_checkpointing.apply(model, wanted)
    for name, module in model.named_modules():
        if name.endswith(("layers.0.self_attn.q_proj", "layers.0.mlp.up_proj")):
            module.register_forward_pre_hook(counting(runs, name.rpartition(".")[2]))
    batch = flat()
    engine = PlainEngine(model, SupervisedFineTuning(), place, 1, batch.ids.device)
    loss = engine.backward(batch, 1.0)
    engine.loss(batch)
    return loss, gradients(model), (runs["q_proj"] - 1, runs["up_proj"] - 1), inforce


@pytest.mark.parametrize(("wanted", "expected"), [("none", (1, 1)), ("selective", (2, 1)), ("full", (2, 2))])
def test_what_is_computed_again(wanted, expected):
    loss, found, runs, inforce = walked(wanted)
    assert (inforce, runs) == (wanted, expected)
    reference, kept, *_ = walked("none")
    assert apart(loss, reference) < 1e-6
    assert max(apart(found[name], kept[name]) for name in kept) < 1e-5


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("checkpointing", ["selective", "full"])
def test_a_backward_pass_on_another_thread_draws_the_same(tmp_path, monkeypatch, fast, checkpointing):
    """As on CUDA, where autograd has a thread for each device."""
    put_data(monkeypatch, rows(8))
    recipe = {
        "recipe.adapter.dropout": 0.2,
        "recipe.schedule.duration": {"unit": "steps", "value": 2},
        "recipe.saving.strategy": "no",
        "machine.fast_path": fast,
        "machine.checkpointing": checkpointing,
        "machine.piece_tokens": None,
    }
    expected = train(tmp_path, recipe, output="here")
    threads = []
    backward = torch.Tensor.backward

    def elsewhere(self, *arguments, **named):
        thread = threading.Thread(target=backward, args=(self, *arguments), kwargs=named)
        thread.start()
        thread.join()
        threads.append(thread)

    monkeypatch.setattr(torch.Tensor, "backward", elsewhere)
    found = train(tmp_path, recipe, output="there")
    assert threads and found.applied["path"] == ("fast" if fast else "plain")
    assert found.losses == expected.losses
    assert found.final("adapter_model.safetensors") == expected.final("adapter_model.safetensors")
