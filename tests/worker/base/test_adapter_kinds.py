"""AdaLoRA, LoKr, IA3 and soft prompts load as a run leaves them, and are refused where they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluate import tiny
from peft import PeftModel
from plans import example_plan
from safetensors.torch import load_file, save_file
from train.tiny_families import config
from transformers import AutoModelForCausalLM

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.base.adapter import load_adapter
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.exit import Exit
from expert_worker.run_record import adapter_config, adapter_tensors
from expert_worker.train import adapter

STEPS = 20
PROMPT = {"name": "task", "tokens": 5, "init": "text", "init_text": "sum it up"}
KINDS: dict[str, dict[str, Any]] = {
    "adalora": {"rank": 4},
    "lokr": {"rank": 4},
    "lokr of a large rank": {"kind": "lokr", "rank": 256},
    "ia3": {"rank": None, "alpha": None, "target_modules": ["k_proj", "down_proj"],
            "feedforward_modules": ["down_proj"]},
    "prompt": {"rank": None, "alpha": None, "target_modules": [], "soft_prompts": [PROMPT]},
}  # fmt: skip


def trained(kind: str, folder: Path, **more: Any) -> Any:
    """An adapter of the kind, every tensor of it drawn; AdaLoRA has dropped ranks as it does in training."""
    chosen = {"kind": kind, **KINDS[kind], **more}
    plan = example_plan(folder, {f"recipe.adapter.{name}": value for name, value in chosen.items()})
    events, _ = Events.in_memory()
    model = adapter.build(plan.recipe, plan.machine.modules, tiny.model(), tiny.tokenizer(), STEPS, events)
    draw = torch.Generator().manual_seed(7)
    for parameter in adapter.trained(model).values():
        parameter.data.normal_(std=0.5, generator=draw)
    if kind == "adalora":
        for step in range(STEPS):
            model.zero_grad()
            ids = torch.arange(9)[None]
            model(input_ids=ids, labels=ids).loss.backward()
            adapter.after_step(model, step)
    return model


def saved(model: Any, folder: Path) -> Path:
    """As `final/` is written."""
    folder.mkdir()
    document = adapter_config(model.peft_config["default"], "tiny")
    (folder / CONFIG).write_text(json.dumps(document))
    save_file({n: t.contiguous() for n, t in adapter_tensors(model).items()}, folder / WEIGHTS)
    return folder


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.arange(9)[None]).logits


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_adapter_computes_what_the_trained_one_does(kind: str, tmp_path: Path) -> None:
    model = trained(kind, tmp_path)
    folder = saved(model, tmp_path / "adapter")
    if kind == "adalora":
        kept = json.loads((folder / CONFIG).read_text())["rank_pattern"]
        assert any(not all(flags) for flags in kept.values())
    found = logits(load_adapter(tiny.model(), folder))
    assert torch.allclose(found, logits(model), atol=1e-5)
    base = logits(tiny.model())
    assert found.shape != base.shape or not torch.allclose(found, base, atol=1e-2)


def test_adalora_is_evaluated_as_it_is_saved(tmp_path: Path) -> None:
    """Between two allocations the optimizer moves values of ranks that the last one took away."""
    model = trained("adalora", tmp_path)
    for name, parameter in adapter.trained(model).items():
        parameter.data += 0.3 * (".lora_E." in name)
    training = logits(model)
    with adapter.as_saved(model):
        evaluated = logits(model)
    assert torch.equal(logits(model), training)
    found = logits(load_adapter(tiny.model(), saved(model, tmp_path / "adapter")))
    assert torch.allclose(found, evaluated, atol=1e-5)
    assert not torch.allclose(found, training, atol=1e-2)


def test_ranks_of_adalora_are_loaded_under_any_name(tmp_path: Path) -> None:
    """Also where they are written before the weights, as checkpoints are."""
    model = trained("adalora", tmp_path)
    document = adapter_config(model.peft_config["default"], "tiny")
    folder = saved(model, tmp_path / "adapter")
    (folder / CONFIG).write_text(json.dumps(document))
    found = PeftModel.from_pretrained(tiny.model(), folder, adapter_name="exported")
    assert torch.allclose(logits(found), logits(model), atol=1e-5)


def test_adalora_of_a_long_training_is_loaded(tmp_path: Path) -> None:
    model = trained("adalora", tmp_path)
    schedule = {"total_step": 20_000_000, "tinit": 2_000_000, "tfinal": 4_000_000, "deltaT": 200_000}
    folder = saved(model, tmp_path / "adapter")
    document = json.loads((folder / CONFIG).read_text())
    assert schedule.keys() <= document.keys()
    (folder / CONFIG).write_text(json.dumps(document | schedule))
    assert torch.allclose(logits(load_adapter(tiny.model(), folder)), logits(model), atol=1e-5)


@pytest.mark.parametrize("init", ["text", "vocab_sample", "random"])
def test_a_soft_prompt_starts_from_what_gemma_s_layers_get(init: str, tmp_path: Path) -> None:
    """Its table scales the vectors that are read from it."""
    gemma = config("gemma3_text")
    gemma.vocab_size = len(tiny.tokenizer())
    base = AutoModelForCausalLM.from_config(gemma)
    prompt = {**PROMPT, "init": init, "init_text": "sum it up" if init == "text" else None}
    chosen = {"kind": "prompt", **KINDS["prompt"], "soft_prompts": [prompt]}
    plan = example_plan(tmp_path, {f"recipe.adapter.{name}": value for name, value in chosen.items()})
    table = base.get_input_embeddings()
    words = table(torch.arange(table.weight.shape[0])).detach()
    events, _ = Events.in_memory()
    model = adapter.build(plan.recipe, plan.machine.modules, base, tiny.tokenizer(), STEPS, events)
    (started,) = adapter.trained(model).values()
    if init == "random":
        assert 0.5 < started.std() / words.std() < 2
    else:
        distances = (started.detach()[:, None] - words).abs().amax(dim=-1)
        assert distances.min(dim=1).values.max() < 1e-6


Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]


def smallest(found: dict[str, torch.Tensor]) -> str:
    return min(found)


TENSORS: dict[str, tuple[Change, str]] = {
    "other names": (lambda t: {f"other.{n}": p for n, p in t.items()}, "have no place|cannot load it"),
    "none": (lambda t: {}, "holds no tensors"),
    "one too many": (lambda t: t | {"base_model.model.x.lora_A.weight": torch.ones(4, 4)}, "such as .*x"),
    "twice as large": (lambda t: {n: torch.cat([p, p]) for n, p in t.items()}, "load it|settings need"),
    "not finite": (
        lambda t: t | {smallest(t): torch.full_like(t[smallest(t)], float("nan"))}, "not finite"),
    "integers": (lambda t: {n: p.long() for n, p in t.items()}, "has the type I64"),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {kind: trained(kind, tmp_path_factory.mktemp("plan")) for kind in KINDS}


@pytest.mark.parametrize(("change", "said"), TENSORS.values(), ids=TENSORS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_that_do_not_fit_are_refused(
    kind: str, change: Change, said: str, tmp_path: Path, models: dict[str, Any]
) -> None:
    folder = saved(models[kind], tmp_path / "adapter")
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)
    refused(folder, said)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "prompt"])
def test_a_missing_tensor_is_refused(kind: str, tmp_path: Path, models: dict[str, Any]) -> None:
    folder = saved(models[kind], tmp_path / "adapter")
    found = load_file(folder / WEIGHTS)
    del found[smallest(found)]
    save_file(found, folder / WEIGHTS)
    refused(folder, "are missing, such as|cannot load it")


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_of_another_base_is_refused(kind: str, tmp_path: Path, models: dict[str, Any]) -> None:
    folder = saved(models[kind], tmp_path / "adapter")
    config = tiny.model().config
    config.hidden_size, config.intermediate_size, config.head_dim = 64, 96, 16
    refused(folder, "cannot be used: ", tiny.LlamaForCausalLM(config))


CONFIGS: dict[str, tuple[str, dict[str, Any], str]] = {
    "ranks kept that are none": ("adalora", {"rank_pattern": {"x.lora_E": [True] * 6}}, "cannot load it"),
    "ranks kept that are numbers": ("adalora", {"rank_pattern": {"x.lora_E": [60_000] * 6}}, "rank_pattern"),
    "more ranks kept than there are": (
        "adalora", {"rank_pattern": {"x.lora_E": [True] * 60_000}}, "rank_pattern"),
    "ranks kept in a list": ("adalora", {"rank_pattern": [1]}, "rank_pattern"),
    "a huge first rank": ("adalora", {"init_r": 60_000}, "no tensor in"),
    "another rank": ("lokr", {"r": 2}, "and its settings need|have no place"),
    "another division": ("lokr", {"decompose_factor": 2}, "and its settings need|have no place"),
    "a huge prompt": ("prompt", {"num_virtual_tokens": 60_000}, "no tensor in"),
    "a shorter prompt": ("prompt", {"num_virtual_tokens": 4}, "cannot load it|settings need"),
    "another width": ("prompt", {"token_dim": 33}, "cannot load it|settings need"),
    "a kind of another": ("lokr", {"peft_type": "ADALORA"}, "cannot be used"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "keys", "said"), CONFIGS.values(), ids=CONFIGS.keys())
def test_settings_that_do_not_fit_are_refused(
    kind: str, keys: dict[str, Any], said: str, tmp_path: Path, models: dict[str, Any]
) -> None:
    folder = saved(models[kind], tmp_path / "adapter")
    document = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(document | keys))
    refused(folder, said)


def refused(folder: Path, said: str, base: Any = None) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        load_adapter(base or tiny.model(), folder)
    assert str(folder) in caught.value.message and caught.value.hint
    assert caught.value.code == "adapter-unusable" and caught.value.exit_code == Exit.BAD_INPUT


def test_settings_that_peft_refuses_by_themselves_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"should be a subset of `?'?target_modules") as caught:
        trained("ia3", tmp_path, target_modules=["k_proj"], feedforward_modules=["down_proj"])
    assert caught.value.code == "adapter-does-not-fit"


@pytest.mark.parametrize(("zero", "named"), [([2], "Row 2"), ([5, 7], "Row 5 and 1 more")])
def test_dora_is_refused_on_a_row_of_zeros(zero: list[int], named: str, tmp_path: Path) -> None:
    def build(kind: str) -> Any:
        model = tiny.model()
        model.model.layers[1].self_attn.q_proj.weight.data[zero] = 0
        plan = example_plan(
            tmp_path, {"recipe.adapter.kind": kind, "recipe.adapter.target_modules": ["q_proj"]}
        )
        events, _ = Events.in_memory()
        return adapter.build(plan.recipe, None, model, tiny.tokenizer(), STEPS, events)

    with pytest.raises(
        BadInput, match=rf"^{named} of model\.layers\.1\.self_attn\.q_proj's weight"
    ) as caught:
        build("dora")
    assert caught.value.code == "adapter-does-not-fit"
    assert logits(build("lora")).isfinite().all()
