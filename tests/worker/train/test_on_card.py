"""LoRA as a GPU computes it, here on the CPU: layers with the same input as one, with copies of A and B."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tiny import EVERY_LINEAR, apart, base, flat, gradients, stirred

from expert_worker.train.fast import compiler
from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import Place, install
from expert_worker.train.fast.kernels.adapted_linear import AdaptedHeads, AdaptedMlp, CardGroup, on_card
from expert_worker.train.fast.weights import end_to_end

BATCHES = [(9, 1, 17, 5), (12, 20)]


@pytest.fixture(autouse=True)
def cards(monkeypatch):
    monkeypatch.setattr(on_card, "DEVICES", {"cuda", "cpu"})


def adapted(kind="qwen3", dtype=torch.float32, targets=EVERY_LINEAR, **settings):
    config = LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM", **settings)
    return stirred(get_peft_model(base(kind, dtype), config))


def decoder(model, kernel, **settings):
    # One place for all decoders of a model: its dropout modules know the first.
    place = model.__dict__.setdefault("place", Place())
    install(model, place)
    return FastDecoder(model, place, kernels={"adapted_linear": kernel}, **settings)


def walked(made, model):
    """Losses of several batches, and the gradient of all of them."""
    model.zero_grad()
    losses = []
    for lengths in BATCHES:
        loss = made.loss(flat(lengths))
        (loss / 7).backward()
        losses.append(loss.detach())
    return torch.stack(losses), gradients(model)


def compare(model, within=1e-5, **settings):
    expected, wanted = walked(decoder(model, "fused_lora"), model)
    made = decoder(model, "lora_on_card", **settings)
    for _ in range(2):
        losses, found = walked(made, model)
        assert apart(losses, expected) < within
        assert found.keys() == wanted.keys()
        assert max(apart(found[name], wanted[name]) for name in wanted) < within
    return made


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_it_computes_what_layer_by_layer_gives(kind, checkpointing, dropout):
    made = compare(adapted(kind, lora_dropout=dropout), checkpointing=checkpointing)
    assert all(
        isinstance(layer.qkv, CardGroup) and isinstance(layer.down, CardGroup) for layer in made.layers
    )


def test_what_drops_columns_stays_where_it_is_over_an_evaluation():
    """A captured graph reads it there."""
    model = adapted(lora_dropout=0.3).train()
    made = decoder(model, "lora_on_card")
    walked(made, model)
    stacks = [columns for layer in made.layers for _, _, columns in layer.qkv.narrow._runs]
    model.eval()
    with torch.no_grad():
        made.loss(flat(BATCHES[0]))
    walked(made, model.train())
    after = [columns for layer in made.layers for _, _, columns in layer.qkv.narrow._runs]
    assert None not in stacks and [*map(id, after)] == [*map(id, stacks)]


@pytest.mark.parametrize(
    "settings",
    [
        {"targets": ["q_proj", "v_proj", "up_proj"]},
        {"alpha_pattern": {"k_proj": 3, "up_proj": 5}, "rank_pattern": {"q_proj": 7, "gate_proj": 2}},
        {"alpha_pattern": {"v_proj": 3}},
    ],
    ids=["some", "unlike", "unlike scales"],
)
def test_layers_may_differ(settings):
    compare(adapted(**settings))


def test_what_the_compiler_reads_computes_the_same():
    torch._dynamo.reset()
    compare(adapted(), compiled=compiler.compiler("aot_eager"))


def test_copies_are_made_again_after_each_step():
    model = adapted()
    made = decoder(model, "lora_on_card")
    made.loss(flat())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.mul_(1.5)
    stale = made.loss(flat())
    made.parameters_changed()
    expected = decoder(model, "fused_lora").loss(flat())
    assert apart(made.loss(flat()), expected) < 1e-6 < apart(stale, expected)


def test_in_16_bits_gradients_are_as_near_to_the_exact_ones_and_in_32():
    model = adapted(dtype=torch.bfloat16)
    wide = deepcopy(model).float()
    _, exact = walked(decoder(wide, "fused_lora"), wide)
    _, usual = walked(decoder(model, "fused_lora"), model)
    _, found = walked(decoder(model, "lora_on_card"), model)
    assert {gradient.dtype for gradient in found.values()} == {torch.float32}
    near = max(apart(usual[name], exact[name]) for name in exact)
    assert 0 < max(apart(found[name], exact[name]) for name in exact) < 1.2 * near


def test_gradients_in_several_pieces_are_added_to_as_well():
    model = adapted()
    made = decoder(model, "lora_on_card")
    _, wanted = walked(made, model)
    made.loss(flat(BATCHES[0])).div(7).backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad.clone()
    made.loss(flat(BATCHES[1])).div(7).backward()
    found = gradients(model)
    assert max(apart(found[name], wanted[name]) for name in wanted) < 1e-5


def test_the_base_has_its_weights_once_and_unchanged():
    model = adapted()
    layer = model.get_base_model().model.layers[0]
    bases = [getattr(layer.self_attn, name).base_layer for name in ("q_proj", "k_proj", "v_proj")]
    before = [linear.weight.clone() for linear in bases]
    decoder(model, "lora_on_card")
    places = [linear.weight.data_ptr() for linear in bases]
    assert end_to_end([linear.weight.data for linear in bases]) is not None
    assert all(torch.equal(linear.weight, weight) for linear, weight in zip(bases, before, strict=True))
    decoder(model, "lora_on_card")
    assert places == [linear.weight.data_ptr() for linear in bases]


@pytest.mark.parametrize(
    ("settings", "heads", "mlp"),
    [
        ({}, True, True),
        ({"rank_pattern": {"v_proj": 2}}, False, True),
        ({"alpha_pattern": {"up_proj": 3}}, True, False),
        # The layer that takes the product may differ from gate and up.
        ({"rank_pattern": {"down_proj": 32}, "alpha_pattern": {"down_proj": 3}}, True, True),
        ({"rank_pattern": {"down_proj": 33}}, True, False),
        ({"rank_pattern": dict.fromkeys(("q_proj", "k_proj", "v_proj"), 33)}, False, True),
    ],
)
def test_kernels_add_lora_of_one_rank_up_to_32_and_one_scale(settings, heads, mlp):
    layer = decoder(adapted(**settings), "lora_on_card").layers[0]
    assert AdaptedHeads.fits(layer.qkv, []) is heads
    assert AdaptedMlp.fits(layer.gate_up, layer.down) is mlp
    # On a CPU each layer is computed by itself.
    assert layer.heads is None and layer.adapted_mlp is None


def test_heads_with_norms_of_two_epsilons_are_computed_by_layer():
    layer = decoder(adapted(), "lora_on_card").layers[0]
    weight = torch.ones(layer.head_width)
    assert AdaptedHeads.fits(layer.qkv, [(weight, 1e-6), (weight, 1e-6)])
    assert not AdaptedHeads.fits(layer.qkv, [(weight, 1e-6), (weight, 1e-5)])
