"""The fast path's loss and every gradient against transformers + peft, to 1e-5 in fp32."""

from __future__ import annotations

import pytest
import torch
from tiny import CONFIGS, apart, flat, gradients, ia3, lora, plain_loss

from expert_worker.train.fast.decoder import FastDecoder
from expert_worker.train.fast.dropout import CounterDropout, Place, install, token_keys
from expert_worker.train.fast.eligible import obstacle


def compare(model, *, reference=None, tolerance=1e-5, **options):
    batch = flat()
    expected = reference(model, batch) if reference else plain_loss(model, batch)
    expected.backward()
    wanted = gradients(model)
    place = Place()
    install(model, place)
    loss = FastDecoder(model, place, **options).loss(batch)
    loss.backward()
    found = gradients(model)
    assert apart(loss, expected) < tolerance
    assert found.keys() == wanted.keys()
    worst = max(wanted, key=lambda name: apart(found[name], wanted[name]))
    assert apart(found[worst], wanted[worst]) < tolerance, worst


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("dora", [False, True])
def test_every_architecture(kind, dora):
    compare(lora(kind, dora=dora))


@pytest.mark.parametrize("checkpointing", ["selective", "full"])
@pytest.mark.parametrize("dora", [False, True])
def test_checkpointing_changes_nothing(checkpointing, dora):
    compare(lora(dora=dora), checkpointing=checkpointing)


def test_ia3_goes_through_its_own_layers():
    compare(ia3())


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("dora", [False, True])
def test_dropout_is_the_one_that_peft_would_apply(dora, checkpointing):
    """peft's own forward with the same masks is the reference, walked document by document."""
    model = lora(dora=dora, dropout=0.3)
    place = Place()
    assert install(model, place) == 14

    def reference(model, batch):
        total = torch.zeros(())
        for piece in batch.pieces(len(batch.lengths)):
            place.keys = piece.keys
            total = total + plain_loss(model, piece)
        return total

    batch = flat()
    expected = reference(model, batch)
    wanted = torch.autograd.grad(expected, [p for p in model.parameters() if p.requires_grad])
    loss = FastDecoder(model, place, checkpointing=checkpointing).loss(batch)
    loss.backward()
    assert apart(loss, expected) < 1e-5
    for (name, found), want in zip(gradients(model).items(), wanted, strict=True):
        assert apart(found, want) < 1e-5, name


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_pieces_sum_to_the_whole(dropout):
    model = lora(dora=True, dropout=dropout)
    place = Place()
    install(model, place)
    decoder = FastDecoder(model, place)
    batch = flat((9, 1, 17, 5, 30, 2))
    decoder.loss(batch).backward()
    whole = gradients(model)
    for piece in batch.pieces(3):
        loss = decoder.loss(piece)
        if loss.requires_grad:
            loss.backward()
    parts = gradients(model)
    assert max(apart(parts[name], whole[name]) for name in whole) < 1e-5


def test_filling_up_changes_nothing():
    model = lora(dora=True, dropout=0.2)
    place = Place()
    install(model, place)
    decoder = FastDecoder(model, place)
    batch = flat((9, 1, 17))
    filled = batch.filled(64)
    assert filled.ids.numel() == 64 and filled.targets.equal(batch.targets)
    assert apart(decoder.loss(filled).detach(), decoder.loss(batch).detach()) < 1e-6


def test_packed_equals_unpacked():
    model = lora()
    decoder = FastDecoder(model, Place())
    batch = flat()
    together = decoder.loss(batch)
    apart_sum = sum(decoder.loss(piece) for piece in batch.pieces(len(batch.lengths)))
    assert apart(together, apart_sum) < 1e-6


def test_a_document_does_not_see_its_neighbour():
    model = lora().eval()
    decoder = FastDecoder(model, Place())
    batch = flat((6, 7))
    other = flat((6, 7), seed=12)
    mixed = torch.cat([other.ids[:6], batch.ids[6:]])
    labels = batch.labels.clone()
    labels[:6] = -100
    one = decoder.loss(type(batch)(batch.ids, labels, batch.positions, batch.lengths, batch.keys))
    two = decoder.loss(type(batch)(mixed, labels, batch.positions, batch.lengths, batch.keys))
    assert float(one) == float(two)


def test_half_precision_stays_near():
    model = lora(dora=True)
    expected = float(plain_loss(model, flat()))
    from tiny import base

    narrow = lora(model=base(dtype=torch.bfloat16), dora=True)
    loss = FastDecoder(narrow, Place()).loss(flat())
    loss.backward()
    assert abs(float(loss) - expected) / expected < 0.02
    assert all(grad.dtype == torch.float32 for grad in gradients(narrow).values())


def test_masks_depend_on_place_and_share_only():
    place = Place(flat().keys)
    dropout = CounterDropout(0.25, "layer.3", place).train()
    mask = dropout.draw(512).mask()
    assert abs(float(mask.float().mean()) - 0.25) < 0.01
    assert torch.equal(mask, dropout.draw(512).mask())
    assert not torch.equal(mask, CounterDropout(0.25, "layer.4", place).draw(512).mask())
    assert dropout.eval().draw(512).mask() is None


def test_masks_show_no_pattern():
    """Neither tokens nor columns resemble each other, and both shares are near the one asked for."""
    keys = token_keys(1, 1, [0], [400])
    mask = CounterDropout(0.3, "layer.3", Place(keys)).draw(400).mask().float()
    assert float(mask.mean(0).std()) < 0.035 and float(mask.mean(1).std()) < 0.035
    for matrix in (mask, mask.t()):
        likeness = torch.corrcoef(matrix).fill_diagonal_(0).abs()
        assert float(likeness.max()) < 0.3 and float(likeness.mean()) < 0.06


def test_obstacles_are_named():
    assert obstacle(lora()) is None
    from peft import LoraConfig, get_peft_model
    from tiny import SHAPE, base
    from transformers import AutoModelForCausalLM, MistralConfig

    windowed = AutoModelForCausalLM.from_config(MistralConfig(**SHAPE, sliding_window=4))
    assert "sliding" in obstacle(windowed)
    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    assert "head" in obstacle(get_peft_model(base("qwen2"), config))
