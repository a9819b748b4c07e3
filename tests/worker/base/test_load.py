"""Locating and loading: quantization, rope scaling and refusals."""

from __future__ import annotations

import hashlib

import pytest
import torch
from plans import example_plan
from transformers import AutoModelForCausalLM, LlamaConfig

from expert_worker.base import load_base, locate
from expert_worker.errors import BadInput, Missing
from expert_worker.events import Events


def save_tiny(folder, **changes):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        **changes,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


@pytest.fixture
def plan_of(tmp_path):
    save_tiny(tmp_path / "base")
    return lambda **changes: example_plan(tmp_path, {k.replace("__", "."): v for k, v in changes.items()})


def applied(said):
    return {line.body.key: line.body.value for line in said.events if line.body.type == "applied"}


@pytest.mark.parametrize(
    ("quantization", "weight", "reported"),
    [
        ("none", "float32", "none"),
        ("bf16", "bfloat16", "none"),
        ("int4", "uint8", "int4"),
        ("int8", "int8", "int8"),
    ],
)
def test_quantization_is_what_the_weights_are_stored_as(plan_of, monkeypatch, quantization, weight, reported):
    monkeypatch.setattr("expert_worker.base.fp32_products._slowdown", lambda dtype: 1.0)
    events, said = Events.in_memory()
    model = load_base(plan_of(recipe__base__quantization=quantization), events)
    stored = model.model.layers[0].mlp.up_proj.weight
    assert str(stored.dtype) == f"torch.{weight}"
    assert applied(said)["base.quantization"] == reported
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert torch.isfinite(model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()


def test_rope_scaling_reaches_the_model(plan_of):
    scaling = {
        "kind": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "max_position_embeddings": 256,
        "attention_factor": 1.0,
        "beta_fast": None,
        "beta_slow": None,
        "low_freq_factor": None,
        "high_freq_factor": None,
        "short_factor": None,
        "long_factor": None,
    }
    events, said = Events.in_memory()
    plain = load_base(plan_of(), Events.in_memory()[0])
    scaled = load_base(plan_of(recipe__base__rope_scaling=scaling), events)
    assert scaled.config.max_position_embeddings == 256
    assert not torch.equal(plain.model.rotary_emb.inv_freq, scaled.model.rotary_emb.inv_freq)
    assert scaled.model.rotary_emb.attention_scaling == 1.0
    assert applied(said)["rope_scaling"]["rope_type"] == "yarn"


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_simple_rope_kinds_load(plan_of, kind):
    scaling = dict.fromkeys(
        (
            "original_max_position_embeddings",
            "max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "low_freq_factor",
            "high_freq_factor",
            "short_factor",
            "long_factor",
        )
    ) | {"kind": kind, "factor": 2.0}
    model = load_base(plan_of(recipe__base__rope_scaling=scaling), Events.in_memory()[0])
    assert model.config.max_position_embeddings == 128
    assert model.model.rotary_emb.rope_type == kind


def test_the_digest_is_checked(plan_of, tmp_path):
    digest = hashlib.sha256((tmp_path / "base" / "model.safetensors").read_bytes()).hexdigest()
    events = Events.in_memory()[0]
    assert locate(plan_of(recipe__base__sha256=digest), events) == tmp_path / "base"
    with pytest.raises(BadInput, match="not the one the manifest asks for"):
        locate(plan_of(recipe__base__sha256="0" * 64), events)


def test_what_is_absent_or_unsafe_is_named(plan_of, tmp_path):
    events = Events.in_memory()[0]
    with pytest.raises(Missing, match="no config"):
        locate(plan_of(machine__paths__base=str(tmp_path / "nowhere")), events)
    (tmp_path / "base" / "model.safetensors").rename(tmp_path / "base" / "pytorch_model.bin")
    with pytest.raises(BadInput, match="pickled"):
        locate(plan_of(), events)


def test_a_broken_weight_file_is_no_traceback(plan_of, tmp_path):
    (tmp_path / "base" / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(BadInput, match="cannot be loaded"):
        load_base(plan_of(), Events.in_memory()[0])


def test_a_hub_id_that_is_nowhere_is_missing(plan_of, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Missing, match="neither in the Hugging Face cache"):
        locate(plan_of(machine__paths__base=None, recipe__base__name="nobody/nothing"), Events.in_memory()[0])
