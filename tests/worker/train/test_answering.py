"""Answers by the fast path are those of transformers and peft: logits, caches, and what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from tiny import CONFIGS, EVERY_LINEAR, apart, base, ia3, lora, stirred
from tiny_families import config
from torch.distributed.fsdp import FSDPModule
from transformers import AutoModelForCausalLM, DynamicCache

from expert_worker.errors import Missing
from expert_worker.events import Events
from expert_worker.train.distributed import shard
from expert_worker.train.fast.answering import (
    FEWEST_SHARED,
    Prompts,
    added,
    common_beginnings,
    fast_answers,
    plain_answers,
)
from expert_worker.train.fast.decoder import causal_model
from expert_worker.train.fast.eligible import SHARDED, obstacle_to_answers
from expert_worker.train.fast.roomy_cache import ROOM, RoomyLayer

LENGTHS = (9, 3, 17, 5)


def prompts(lengths: tuple[int, ...] = LENGTHS) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded on the left."""
    torch.manual_seed(7)
    ids = torch.randint(1, 97, (len(lengths), max(lengths)))
    mask = torch.stack([(torch.arange(max(lengths)) >= max(lengths) - length).long() for length in lengths])
    return ids.masked_fill(mask == 0, 0), mask


def written(model: Any, *, fast: bool, tokens: int = ROOM + 8, **more: Any) -> Any:
    ids, mask = prompts()
    given = {"input_ids": ids, "attention_mask": mask, **more}
    settings = {"max_new_tokens": tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    kept = {"return_dict_in_generate": True, "output_logits": True}
    with torch.inference_mode():
        if not fast:
            return model.generate(**given, **settings, **kept)
        with fast_answers(model):
            assert "forward" in vars(causal_model(model))
            return model.generate(**given, **settings, **kept)


def compare(model: Any, tolerance: float = 1e-5) -> None:
    plain, fast = written(model, fast=False), written(model, fast=True)
    assert torch.equal(fast.sequences, plain.sequences)
    for ours, theirs in zip(fast.logits, plain.logits, strict=True):
        assert apart(ours, theirs) < tolerance
    ids, mask = prompts()
    for ours, theirs in zip(fast.past_key_values.layers, plain.past_key_values.layers, strict=True):
        assert ours.keys.shape == theirs.keys.shape
        # What is kept of padding, nobody reads.
        there = torch.cat([mask, mask.new_ones(len(ids), theirs.keys.shape[2] - mask.shape[1])], 1).bool()
        for one, other in ((ours.keys, theirs.keys), (ours.values, theirs.values)):
            assert apart(one.transpose(1, 2)[there], other.transpose(1, 2)[there]) < tolerance


@pytest.mark.parametrize("kind", sorted(CONFIGS))
@pytest.mark.parametrize("adapter", ["none", "lora", "dora"])
def test_every_architecture_answers_as_transformers_does(kind, adapter):
    model = base(kind) if adapter == "none" else lora(kind, dora=adapter == "dora")
    compare(model.eval())


@contextmanager
def without_calls(model: Any) -> Iterator[None]:
    """Of peft's modules, which are slower."""
    hooks = [
        module.register_forward_pre_hook(lambda *_: pytest.fail("peft's own module was called"))
        for module in model.modules()
        if isinstance(module, LoraLayer)
    ]
    yield
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("dora", [False, True])
def test_an_adapter_with_dropout_answers_without_it(dora):
    model = lora(dora=dora, dropout=0.5).eval()
    compare(model)
    with without_calls(model):
        written(model, fast=True)


def test_ia3_and_layers_without_an_adapter_answer_by_their_own_modules():
    compare(ia3().eval())
    some = LoraConfig(r=4, target_modules=["k_proj", "down_proj"], task_type="CAUSAL_LM")
    compare(stirred(get_peft_model(base("qwen2"), some)).eval())


def test_a_switched_off_adapter_answers_as_the_base():
    model = lora().eval()
    adapted = written(model, fast=True).logits[0]
    with model.disable_adapter():
        compare(model)
        with without_calls(model):
            assert apart(written(model, fast=True).logits[0], adapted) > 0.01


def test_a_merged_adapter_and_two_adapters_answer_as_peft_does():
    model = lora().eval()
    second = LoraConfig(r=4, target_modules=EVERY_LINEAR, task_type="CAUSAL_LM")
    model.add_adapter("second", second)
    stirred(model).eval()
    for name in ("default", "second"):
        model.set_adapter(name)
        compare(model)
    model.merge_adapter()
    compare(model)


def test_16_bits_are_as_near_to_32_as_those_of_transformers():
    exact = written(lora().eval(), fast=False, tokens=1).logits[0]
    narrow = lora(model=base(dtype=torch.bfloat16)).eval()
    ours, theirs = (written(narrow, fast=fast, tokens=1).logits[0].float() for fast in (True, False))
    assert 0 < apart(ours, exact) < 1.5 * apart(theirs, exact) + 0.002


def test_changed_weights_are_read_again():
    model = lora().eval()
    before = written(model, fast=True).logits[0]
    stirred(model).eval()
    assert apart(written(model, fast=True).logits[0], before) > 1e-3
    compare(model)


def test_every_logit_of_texts_without_a_cache():
    """As the loss of reference answers reads them, padded on the right."""
    model = lora().eval()
    ids, mask = (x.flip(1) for x in prompts())
    with torch.inference_mode():
        expected = model(input_ids=ids, attention_mask=mask).logits
        with fast_answers(model):
            found = model(input_ids=ids, attention_mask=mask, use_cache=False)
    assert found.past_key_values is None
    assert apart(found.logits[mask.bool()], expected[mask.bool()]) < 1e-5


def test_the_last_logits_of_prompts_and_of_what_follows():
    model = lora().eval()
    ids, mask = prompts()

    def read(keep: int) -> list[torch.Tensor]:
        first = model(input_ids=ids[:, :-4], attention_mask=mask[:, :-4], logits_to_keep=keep, use_cache=True)
        more = {"attention_mask": mask, "logits_to_keep": keep, "past_key_values": first.past_key_values}
        return [first.logits, model(input_ids=ids[:, -4:], **more).logits]

    # The second row has three tokens, all of them among the last four.
    there = [mask[:, -4:][:, -3:].bool(), mask[:, -7:-4].bool()]
    with torch.inference_mode():
        every = read(0)
        with fast_answers(model):
            found = read(3)
    for own, all_of_it, mask_of_own in zip(found, every, reversed(there), strict=True):
        assert own.shape[1] == 3
        assert apart(own[mask_of_own], all_of_it[:, -3:][mask_of_own]) < 1e-5


@pytest.mark.parametrize("count", [1, 4])
def test_several_tokens_after_a_cache_with_padding_within(count):
    """A beginning that all share, then padding, then the rest."""
    model = lora().eval()
    torch.manual_seed(8)
    ids = torch.randint(1, 97, (3, 6 + 5 + count))
    mask = torch.ones_like(ids)
    mask[0, 6:9] = 0
    mask[1, 6:10] = 0
    mask[2, :8] = 0

    def read() -> torch.Tensor:
        cache, found = DynamicCache(), []
        for start, end in ((0, 6), (6, 11), (11, 11 + count)):
            seen = mask[:, :end]
            made = model(
                input_ids=ids[:, start:end],
                attention_mask=seen,
                position_ids=(seen.cumsum(1) - 1)[:, start:],
                past_key_values=cache,
                use_cache=True,
            )
            cache = made.past_key_values
            found.append(made.logits)
        return torch.cat(found, 1)[mask.bool()]

    with torch.inference_mode():
        expected = read()
        with fast_answers(model):
            found = read()
    assert apart(found, expected) < 1e-5


def test_what_prompts_begin_with_is_computed_once_for_each_of_them(monkeypatch):
    """Questions about two lists of tables, one of which is asked itself, the same one twice, and another."""
    model = lora().eval()
    torch.manual_seed(9)
    tables, others = (torch.randint(1, 97, (count,)).tolist() for count in (FEWEST_SHARED, 60))
    texts = [
        [*others, 5, 6],
        [*tables, 7],
        [*tables, 7],
        [3, 4],
        [*tables, 7, 8],
        others,
        [*tables, 9],
        [*others, 5, 6],
    ]
    width = max(map(len, texts))
    ids = torch.tensor([[0] * (width - len(text)) + text for text in texts])
    mask = torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in texts])
    monkeypatch.setitem(globals(), "prompts", lambda: (ids, mask))
    found = common_beginnings(texts)
    computed = sum(len(texts[it.text]) - it.shared for it in found)
    assert computed == 2 + (60 + 2 + 2) + (len(tables) + 1 + 1 + 1 + 1)
    assert all(it.shared < len(texts[it.text]) for it in found)
    compare(model)
    with torch.inference_mode():
        every = model(
            input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0)
        ).logits
        with fast_answers(model):
            ours = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    assert apart(ours[mask.bool()], every[mask.bool()]) < 1e-5


def test_no_document_is_without_tokens():
    """Torch's flash attention on a CPU divides by their number."""
    mask = torch.tensor([[0, 0, 0], [0, 1, 1], [0, 0, 0]]).bool()
    assert Prompts(torch.ones(3, 3, dtype=torch.long), mask, None).documents.lengths == (2, 30)


def test_padding_sees_itself_alone():
    """Some kernels give NaN for a token that sees nothing."""
    mask = torch.tensor([[0, 0, 0, 0, 1], [1, 1, 1, 1, 1]]).bool()
    seen = added(mask, 3, torch.float32)[:, 0] == 0
    assert seen[0].tolist() == [
        [False, False, True, False, False],
        [False] * 3 + [True, False],
        [False] * 4 + [True],
    ]
    assert seen[1].sum(1).tolist() == [3, 4, 5]


def test_a_selected_and_a_repeated_cache_continue():
    model = lora().eval()
    ids, mask = prompts()
    plain, fast = written(model, fast=False), written(model, fast=True)
    kept = torch.tensor([2, 0])
    found = []
    for made, is_fast in ((plain, False), (fast, True)):
        cache = made.past_key_values
        cache.batch_select_indices(kept)
        cache.batch_repeat_interleave(2)
        rows = kept.repeat_interleave(2)
        ids = made.sequences[rows]
        seen = torch.cat([mask, mask.new_ones(len(mask), ids.shape[1] - mask.shape[1])], 1)[rows]
        more = {"input_ids": ids, "attention_mask": seen, "past_key_values": cache}
        found.append(written(model, fast=is_fast, **more))
    assert torch.equal(found[0].sequences, found[1].sequences)
    assert all(apart(ours, theirs) < 1e-5 for theirs, ours in zip(*(it.logits for it in found), strict=True))


def new(start: int, count: int = 1, rows: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.arange(start, start + count).float().view(1, 1, -1, 1).expand(rows, 3, count, 4)
    return keys, -keys


def numbers(layer: RoomyLayer) -> list[float]:
    assert torch.equal(layer.values, -layer.keys)
    return layer.keys[-1, -1, :, -1].tolist()


def test_a_layer_writes_behind_what_it_keeps_and_moves_when_its_room_is_full():
    layer = RoomyLayer()
    layer.update(*new(0, 5))
    place = layer.keys.data_ptr()
    for token in range(5, 5 + ROOM):
        layer.update(*new(token))
    assert layer.keys.data_ptr() == place
    layer.update(*new(5 + ROOM))
    assert layer.keys.data_ptr() != place
    assert numbers(layer) == [*range(6 + ROOM)]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copied_layer_writes_into_its_own_room(duplicate):
    layer = RoomyLayer()
    layer.update(*new(0, 5))
    other = duplicate(layer)
    other.update(*new(70))
    layer.update(*new(5))
    assert numbers(layer) == [0, 1, 2, 3, 4, 5]
    assert numbers(other) == [0, 1, 2, 3, 4, 70]
    other.keys, other.values = other.keys[:1], other.values[:1]
    other.update(*new(71, rows=1))
    assert numbers(other) == [0, 1, 2, 3, 4, 70, 71]


def wrapped(*modules: str) -> Any:
    settings = LoraConfig(
        r=2, target_modules=["q_proj"], modules_to_save=list(modules), task_type="CAUSAL_LM"
    )
    return get_peft_model(base(), settings)


def with_prompt() -> Any:
    return get_peft_model(base(), PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"))


def other(architecture: str) -> Any:
    return AutoModelForCausalLM.from_config(config(architecture))


REFUSED = {
    "architecture": (lambda: other("gpt2"), "gpt2 is not supported"),
    "window": (lambda: other("gemma3_text"), "not supported"),
    "head": (lambda: wrapped("lm_head"), "the head is adapted"),
    "words": (lambda: wrapped("embed_tokens"), "the embedding is adapted"),
    "norms": (lambda: wrapped("input_layernorm"), "a norm is adapted"),
    "prompt": (with_prompt, "virtual tokens"),
}


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_what_it_does_not_compute_is_left_to_transformers(kind):
    make, reason = REFUSED[kind]
    model = make().eval()
    assert reason in str(obstacle_to_answers(model))
    with fast_answers(model):
        assert "forward" not in vars(causal_model(model))


def test_a_sharded_base_is_left_to_its_own_modules(tmp_path):
    """They gather the weights of a layer when it is called."""
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = lora().eval()
        expected = written(model, fast=False).sequences
        if not hasattr(FSDPModule, "reset_iter_state"):  # torch 2.11
            with pytest.raises(Missing, match="cannot reset a sharded base"):
                shard(model, torch.device("cpu"), Events())
            return
        shard(model, torch.device("cpu"), Events())
        assert obstacle_to_answers(model) == SHARDED
        with fast_answers(model):
            assert torch.equal(written(model, fast=False).sequences, expected)
    finally:
        torch.distributed.destroy_process_group()


def test_the_models_own_forward_is_back_after_an_error_and_a_block_within_changes_nothing():
    model = lora().eval()
    inner = causal_model(model)
    with pytest.raises(KeyError), fast_answers(model):
        outer = inner.forward
        with fast_answers(model):
            assert inner.forward == outer
        assert inner.forward == outer
        raise KeyError
    assert "forward" not in vars(inner)


def test_plain_answers_are_transformers_own():
    model = lora().eval()
    inner = causal_model(model)
    own = inner.forward
    with plain_answers(model):
        with fast_answers(model):
            assert inner.forward == own
        assert inner.forward == own
    assert "forward" not in vars(inner)
