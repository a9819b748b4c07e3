"""Every architecture of `families.json` trains on its own layers, resumes to the same bytes and generates.
What `plan` counts is what is trained."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
import tiny_families
import torch
from evaluate.tiny import tokenizer
from plans import example_plan
from safetensors.torch import load_file
from scene import put_data, save_base, train
from tiny_families import planned
from transformers import AutoModelForCausalLM

from expert_worker.base import load_base, load_tokenizer
from expert_worker.base.adapter import load_adapter
from expert_worker.base.families import FILE, table
from expert_worker.base.rope import apply_rope_scaling
from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate.decode import Prompt, answer_all
from expert_worker.events import Events
from expert_worker.plan import Decoding, RopeScaling
from expert_worker.train.fast.families import layout
from expert_worker.train.modules import find

# One for each way in which layers are laid out; the others run in `make test-all`.
QUICK = {"gemma2", "gpt2", "gpt_neo", "gpt_neox", "mixtral", "mpt", "phi3"}
ARCHITECTURES = [name for family in table().families for name in family.architectures]
TWO_STEPS = {
    "recipe.adapter.target_modules": ["all-linear"],
    "recipe.schedule.duration": {"unit": "steps", "value": 2},
    "recipe.saving": {"strategy": "steps", "steps": 1},
}


@pytest.fixture(autouse=True)
def _data(monkeypatch):
    put_data(monkeypatch)


def quick_or_full(name: str) -> Any:
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.full)


@pytest.mark.parametrize("name", [quick_or_full(name) for name in ARCHITECTURES])
def test_trains_resumes_and_generates(name, tmp_path):
    save_base(tmp_path / "base", name)
    modules = planned(tmp_path)["plan"]["machine"]["modules"]
    recipe = {**TWO_STEPS, "machine.modules": modules}
    assert modules["parameters"] is not None
    whole = train(tmp_path, recipe, output="whole")
    assert whole.applied["adapter"]["target_modules"] == modules["target"]
    assert whole.applied["adapter"]["trained_parameters"] == modules["parameters"]
    saved = load_file(whole.output / "final" / "adapter_model.safetensors")
    assert sum(tensor.numel() for tensor in saved.values()) == modules["parameters"]

    shutil.copytree(whole.output / "checkpoint-1", tmp_path / "resumed" / "checkpoint-1")
    resumed = train(tmp_path, {**recipe, "request.resume": {"from": "newest"}}, output="resumed")
    assert resumed.result["resumed_from"] == 1 and resumed.losses == whole.losses[1:]
    assert resumed.final("adapter_model.safetensors") == whole.final("adapter_model.safetensors")

    plan, events = example_plan(tmp_path), Events.in_memory("generate")[0]
    base, machine = plan.recipe.base, plan.machine
    model, tokenizer = load_base(base, machine, events), load_tokenizer(base, machine.paths, events)
    decoding = plan.recipe.decoding.model_copy(update={"max_new_tokens": 3, "stop_sequences": ()})
    prompts = [Prompt([3, 4, 5, 6]), Prompt([7, 8])]
    adapted = load_adapter(model, whole.output / "final")
    assert len(answer_all(adapted, tokenizer, prompts, decoding)) == 2


@pytest.mark.parametrize("name", [quick_or_full(name) for name in ARCHITECTURES])
def test_prompts_that_begin_alike_are_answered_as_each_alone(name):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(tiny_families.config(name)).float().eval()
    for weights in model.parameters():
        weights.data.mul_(3 if weights.dim() > 1 else 1)
    model.generation_config.eos_token_id = 0
    shown = [1 + (7 * place + place * place) % 79 for place in range(70)]
    asked = [Prompt([*shown, *range(3, 3 + length)]) for length in (3, 9, 1, 30, 5)]
    greedy = Decoding(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, stop_sequences=(), max_new_tokens=12)
    alone = [answer_all(model, tokenizer(), [prompt], greedy)[0] for prompt in asked]
    assert len(set(alone)) > 1
    assert answer_all(model, tokenizer(), asked, greedy) == alone


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_fast_path_reads_what_the_table_says(name):
    listed = next(family.fast_path for family in table().families if name in family.architectures)
    read = layout(name)
    assert (read is not None) == (listed is not None)
    if read is not None:
        assert read.obstacle(tiny_families.config(name)) is None


LINEAR = RopeScaling.model_validate(
    dict.fromkeys(RopeScaling.model_fields) | {"kind": "linear", "factor": 4.0}
)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rope_scaling_has_an_effect_or_is_refused_as_the_table_says(name):
    refused = {
        it for family in json.loads(FILE.read_bytes())["families"] for it in family.get("no_rope_scaling", ())
    }
    config = tiny_families.config(name)
    if name in refused:
        with pytest.raises(BadInput, match=f"{name} has no rotary positions that can be scaled"):
            apply_rope_scaling(config, LINEAR)
        return
    if "full_attention" in config.rope_parameters:
        config.layer_types = ["sliding_attention", "full_attention"]
    logits = []
    for scaled in (False, True):
        if scaled:
            apply_rope_scaling(config, LINEAR)
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config).float().eval()
        logits.append(model(input_ids=torch.arange(40)[None]).logits)
    assert not torch.equal(*logits)


KINDS: dict[str, dict[str, Any]] = {
    "lora": {},
    "dora": {},
    "adalora": {"rank": 3},
    "lokr": {"rank": 4},
    "ia3": {"rank": None, "alpha": None},
}


def counted() -> list[Any]:
    """LoKr cannot be put on GPT-2's own kind of layer."""
    pairs = [
        (name, kind) for name in ARCHITECTURES for kind in sorted(KINDS) if (name, kind) != ("gpt2", "lokr")
    ]
    quick = {(name, kind) for name, kind in pairs if name in {"gpt2", "phi3"}}
    return [pytest.param(*pair, marks=() if pair in quick else pytest.mark.full) for pair in pairs]


@pytest.mark.parametrize(("name", "kind"), counted())
def test_the_plan_counts_what_is_trained(name, kind, tmp_path):
    from expert_worker.train import adapter

    save_base(tmp_path / "base", name)
    settings = {"adapter_type": kind, "target_modules": "all-linear", **KINDS[kind]}
    document = planned(tmp_path, **settings)
    whole = document["plan"]["recipe"]["adapter"]
    plan = example_plan(
        tmp_path, {"recipe.adapter": whole, "machine.modules": document["plan"]["machine"]["modules"]}
    )
    events, recipe, machine = Events.in_memory()[0], plan.recipe, plan.machine
    base = load_base(recipe.base, machine, events)
    tokenizer = load_tokenizer(recipe.base, machine.paths, events)
    model = adapter.build(recipe, machine.modules, base, tokenizer, 10, events)
    assert plan.machine.modules is not None
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == plan.machine.modules.parameters


def test_ia3_scales_the_family_s_layers(tmp_path):
    save_base(tmp_path / "base", "gpt_neox")
    document = planned(tmp_path, adapter_type="ia3", rank=None, alpha=None)
    modules = document["plan"]["machine"]["modules"]
    assert document["plan"]["recipe"]["adapter"]["target_modules"] == []
    assert (modules["target"], modules["feedforward"]) == (
        ["dense_4h_to_h", "query_key_value"],
        ["dense_4h_to_h"],
    )


def test_a_name_without_a_layer_is_an_error(tmp_path):
    save_base(tmp_path / "base", "phi3")
    with pytest.raises(BadInput, match="q_proj of target_modules matches no layer") as caught:
        train(tmp_path, {**TWO_STEPS, "recipe.adapter.target_modules": ["o_proj", "q_proj"]})
    assert caught.value.code == "module-missing"
    assert "down_proj, gate_up_proj, o_proj, qkv_proj" in str(caught.value.hint)


def test_another_number_of_parameters_than_planned_is_refused(tmp_path):
    modules = {"target": ["q_proj"], "feedforward": [], "parameters": 100}
    changes = {**TWO_STEPS, "recipe.adapter.target_modules": ["q_proj"], "machine.modules": modules}
    with pytest.raises(
        Failed, match=r"counts 100 trained parameters, and the adapter on tiny has 5\d\d"
    ) as caught:
        train(tmp_path, changes)
    assert caught.value.code == "trained-parameters-differ"
    assert not (tmp_path / "out" / "final").exists()


def test_layers_that_peft_cannot_adapt_are_refused_in_words(tmp_path):
    save_base(tmp_path / "base", "gpt2")
    with pytest.raises(BadInput, match="does not fit the base") as caught:
        train(tmp_path, {**TWO_STEPS, "recipe.adapter.kind": "lokr"})
    assert caught.value.code == "adapter-does-not-fit"


@pytest.mark.parametrize("name", ["mamba", "falcon_h1"])
def test_state_space_layers_are_refused(name, tmp_path):
    base = torch.nn.Module()
    base.config = type("Config", (), {"model_type": name})()
    with pytest.raises(BadInput, match="state-space") as caught:
        find(base, example_plan(tmp_path).recipe.adapter)
    assert caught.value.code == "base-unsupported"
