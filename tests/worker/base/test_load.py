"""Locating and loading: quantization, rope scaling and refusals."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from plans import example_plan
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma2Config,
    Gemma2PreTrainedModel,
    Gemma3Config,
    Gemma3TextConfig,
    LlamaConfig,
)
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from expert_worker import base
from expert_worker.base import quantized
from expert_worker.base.rope import (
    apply_rope_scaling,
    follows_longest_row,
    scale_by_the_batch_alone,
    scaled_length,
)
from expert_worker.errors import BadInput, Missing
from expert_worker.events import Events
from expert_worker.plan import RopeScaling
from expert_worker.pretokenize.locate import tokenizer_folder


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


def loaded(plan, events):
    return base.load_base(plan.recipe.base, plan.machine, events)


def located(plan, events):
    return base.locate(plan.recipe.base, plan.machine.paths, events)


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
    monkeypatch.setattr("expert_worker.base.product_speed.slowdown", lambda dtype: 1.0)
    events, said = Events.in_memory()
    model = loaded(plan_of(recipe__base__quantization=quantization), events)
    stored = model.model.layers[0].mlp.up_proj.weight
    assert str(stored.dtype) == f"torch.{weight}"
    assert applied(said)["base.quantization"] == reported
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert torch.isfinite(model(input_ids=torch.tensor([[1, 2, 3]])).logits).all()


@pytest.mark.parametrize(("stored", "other"), [("int4", "int8"), ("int8", "int4")])
def test_a_base_that_is_stored_quantized_is_loaded_as_it_is_stored(plan_of, tmp_path, stored, other):
    folder = tmp_path / "base"
    bits = quantized.config_of(stored, torch.float32)
    model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=bits, device_map={"": "cpu"})
    model.save_pretrained(folder)
    events, said = Events.in_memory()
    loaded(plan_of(recipe__base__quantization=stored), events)
    assert applied(said)["base.quantization"] == stored
    for asked in ("none", "bf16", other):
        with pytest.raises(BadInput, match=f"is stored in {stored}, and .* weights are asked for") as caught:
            loaded(plan_of(recipe__base__quantization=asked), Events.in_memory()[0])
        assert f"Set `quantization` to {stored}" in caught.value.hint


@pytest.mark.parametrize("form", ["fp8", "fbgemm_fp8", "mxfp4", "gptq", "awq"])
def test_a_base_in_a_form_that_a_gpu_and_a_cpu_hold_differently_is_refused(plan_of, tmp_path, form):
    plan = plan_of()
    path = tmp_path / "base" / "config.json"
    config = json.loads(path.read_text()) | {"quantization_config": {"quant_method": form}}
    path.write_text(json.dumps(config))
    with pytest.raises(BadInput, match=f"is stored in the form `{form}`") as caught:
        loaded(plan, Events.in_memory()[0])
    assert caught.value.code == "stored-quantization"
    assert "stored unquantized" in caught.value.hint


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
    plain = loaded(plan_of(), Events.in_memory()[0])
    scaled = loaded(plan_of(recipe__base__rope_scaling=scaling), events)
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
    model = loaded(plan_of(recipe__base__rope_scaling=scaling), Events.in_memory()[0])
    assert model.config.max_position_embeddings == {"linear": 128, "dynamic": 64}[kind]
    assert model.model.rotary_emb.rope_type == kind


def test_a_base_with_a_text_part_is_scaled_there():
    scaling = RopeScaling.model_validate(
        dict.fromkeys(RopeScaling.model_fields) | {"kind": "yarn", "factor": 4.0}
    )
    config = Gemma3Config(text_config={"max_position_embeddings": 64}, vision_config={})
    apply_rope_scaling(config, scaling)
    text = config.text_config
    assert text.rope_parameters["full_attention"]["original_max_position_embeddings"] == 64
    assert text.rope_parameters["sliding_attention"]["rope_type"] == "default"
    assert (text.max_position_embeddings, scaled_length(config, scaling)) == (256, 256)


def test_positions_that_are_not_rotary_cannot_be_scaled():
    """Falcon's older models have ALiBi, and rotary settings all the same."""
    scaling = RopeScaling.model_validate(
        dict.fromkeys(RopeScaling.model_fields) | {"kind": "yarn", "factor": 4.0}
    )
    with pytest.raises(BadInput, match="falcon has no rotary positions that can be scaled"):
        apply_rope_scaling(FalconConfig(alibi=True), scaling)


def test_dynamic_rope_of_layers_with_full_attention_follows_the_rows_of_the_batch():
    dynamic = dict.fromkeys(RopeScaling.model_fields) | {"kind": "dynamic", "factor": 4.0}
    config = Gemma3TextConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
        layer_types=["sliding_attention", "full_attention"],
    )
    apply_rope_scaling(config, RopeScaling.model_validate(dynamic))
    model = AutoModelForCausalLM.from_config(config).eval()
    scale_by_the_batch_alone(model)
    rotary = model.model.rotary_emb
    assert follows_longest_row(rotary) == "dynamic"
    x, first = torch.zeros(1, 1, 1), {}
    for length in (100, 256, 100):
        found = rotary(x, torch.arange(length)[None], "full_attention")[0]
        assert torch.equal(found, first.setdefault(length, found)), length


def test_a_factor_counts_from_the_length_before_the_bases_own_scaling(plan_of, tmp_path):
    """The plan counts in the same way: the test of this name in `contract/tests/bases.rs`."""
    own = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, "rope_theta": 1e4}
    save_tiny(tmp_path / "base", rope_parameters={**own, "low_freq_factor": 1.0, "high_freq_factor": 4.0})
    scaling = dict.fromkeys(RopeScaling.model_fields) | {"kind": "yarn", "factor": 16.0}
    model = loaded(plan_of(recipe__base__rope_scaling=scaling), Events.in_memory()[0])
    assert model.config.max_position_embeddings == 512
    assert model.config.rope_parameters["original_max_position_embeddings"] == 32


def test_dynamic_rope_scales_the_rows_that_are_longer_than_the_base(plan_of, tmp_path):
    scaling = dict.fromkeys(RopeScaling.model_fields) | {"kind": "dynamic", "factor": 4.0}
    rotary = loaded(plan_of(recipe__base__rope_scaling=scaling), Events.in_memory()[0]).model.rotary_emb
    config = LlamaConfig.from_pretrained(tmp_path / "base")
    config.rope_parameters = {**config.rope_parameters, "rope_type": "dynamic", "factor": 4.0}
    unscaled = LlamaRotaryEmbedding(LlamaConfig.from_pretrained(tmp_path / "base"))
    # A shorter row is scaled as if there had been no longer one before it.
    for length in (100, 256, 100, 64):
        positions, x = torch.arange(length)[None], torch.zeros(1, 1, 1)
        found, plain = rotary(x, positions)[0], LlamaRotaryEmbedding(config)(x, positions)[0]
        assert torch.equal(found, plain), length
        assert torch.equal(found, unscaled(x, positions)[0]) == (length <= 64)


def test_the_digest_is_checked(plan_of, tmp_path):
    digest = hashlib.sha256((tmp_path / "base" / "model.safetensors").read_bytes()).hexdigest()
    events = Events.in_memory()[0]
    assert located(plan_of(recipe__base__sha256=digest), events) == tmp_path / "base"
    with pytest.raises(BadInput, match="not the one the manifest asks for"):
        located(plan_of(recipe__base__sha256="0" * 64), events)


def test_a_digest_is_taken_once_while_the_file_stays_as_it_is(tmp_path, plan_of, monkeypatch):
    weights = tmp_path / "base" / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    original, read = hashlib.file_digest, []

    def counted(stream, kind):
        read.append(stream.name)
        return original(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    plan, events = plan_of(recipe__base__sha256=digest), Events.in_memory()[0]
    for _ in range(3):
        located(plan, events)
    assert read == [str(weights)]
    weights.write_bytes(weights.read_bytes() + b" ")
    with pytest.raises(BadInput, match="not the one the manifest asks for"):
        located(plan, events)


def test_what_is_absent_or_unsafe_is_named(plan_of, tmp_path):
    events = Events.in_memory()[0]
    with pytest.raises(Missing, match="no config"):
        located(plan_of(machine__paths__base=str(tmp_path / "nowhere")), events)
    (tmp_path / "base" / "model.safetensors").rename(tmp_path / "base" / "pytorch_model.bin")
    with pytest.raises(BadInput, match="pickled"):
        located(plan_of(), events)


def test_a_folder_that_lacks_weights_is_not_to_be_downloaded(plan_of, tmp_path):
    folder = tmp_path / "base"
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "1-of-1.safetensors"}}')
    (folder / "model.safetensors").unlink()
    for missing in ("lacks 1 of its 1 weight files", "no safetensors files"):
        with pytest.raises(Missing, match=missing) as failure:
            located(plan_of(), Events.in_memory()[0])
        assert "the whole model" in failure.value.hint and "network" not in failure.value.hint
        (folder / "model.safetensors.index.json").unlink(missing_ok=True)


def test_a_broken_weight_file_is_an_error_without_a_traceback(plan_of, tmp_path):
    (tmp_path / "base" / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(BadInput, match="cannot be read"):
        loaded(plan_of(), Events.in_memory()[0])


def test_a_hub_id_that_is_nowhere_is_missing(plan_of, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Missing, match="neither in the Hugging Face cache"):
        located(
            plan_of(machine__paths__base=None, recipe__base__name="nobody/nothing"), Events.in_memory()[0]
        )


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ((), ("model.safetensors",)),
        (("1-of-2.safetensors",), ("2-of-2.safetensors", "model.safetensors.index.json")),
        (("1-of-2.safetensors", "model.safetensors.index.json"), ("2-of-2.safetensors",)),
    ],
    ids=["fetched for its tokenizer", "interrupted before the index", "interrupted after the index"],
)
def test_a_snapshot_without_all_weights_is_fetched_to_its_end(first, rest, plan_of, tmp_path, monkeypatch):
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    index = {"weight_map": {"a": "1-of-2.safetensors", "b": "2-of-2.safetensors"}}

    def arrive(*names):
        for name in names:
            (snapshot / name).write_text(json.dumps(index))

    arrive("config.json", "tokenizer.json", *first)
    downloads = []

    def snapshot_download(name, *, local_files_only=False, **_):
        if not local_files_only:
            downloads.append(name)
            arrive(*rest)
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    plan = plan_of(machine__paths__base=None, recipe__base__name="someone/mine")
    tokenizer = tokenizer_folder(plan.recipe.base, plan.machine.paths, Events.in_memory()[0])
    assert (tokenizer, downloads) == (snapshot, [])
    for _ in range(2):
        assert located(plan, Events.in_memory()[0]) == snapshot
    assert downloads == ["someone/mine"]


def test_a_snapshot_without_a_tokenizer_is_fetched_for_it(plan_of, tmp_path, monkeypatch):
    """Such as one of which somebody read the config.json alone."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "config.json").write_text("{}")
    downloads = []

    def snapshot_download(name, *, local_files_only=False, **_):
        if not local_files_only:
            downloads.append(name)
            (snapshot / "tokenizer.json").write_text("{}")
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    plan = plan_of(machine__paths__base=None, recipe__base__name="someone/mine")
    for _ in range(2):
        assert tokenizer_folder(plan.recipe.base, plan.machine.paths, Events.in_memory()[0]) == snapshot
    assert downloads == ["someone/mine"]


def test_a_second_copy_of_the_weights_is_neither_fetched_nor_read(plan_of, tmp_path, monkeypatch):
    folder = tmp_path / "base"
    shard = folder / "model-00001-of-00001.safetensors"
    (folder / "model.safetensors").rename(shard)
    digest = hashlib.sha256(shard.read_bytes()).hexdigest()
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(shard), shard.name)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    asked = []

    def snapshot_download(_, **patterns):
        asked.append(patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    hub = {"machine__paths__base": None, "recipe__base__name": "a/b"}
    located(plan_of(**hub), Events.in_memory()[0])
    patterns = {key: asked[0][key] for key in ("allow_patterns", "ignore_patterns")}
    names = ["consolidated.safetensors", "original/model.safetensors", "additional_chat_templates/tool.jinja"]
    fetched = list(filter_repo_objects([shard.name, *names], **patterns))
    assert fetched == [shard.name, "additional_chat_templates/tool.jinja"]
    (folder / "consolidated.safetensors").write_bytes(b"not read")
    loaded(plan_of(recipe__base__sha256=digest), Events.in_memory()[0])
    digests = [hashlib.sha256(text).hexdigest() for text in (b"not read", shard.read_bytes())]
    with_copy = hashlib.sha256("".join(digests).encode()).hexdigest()
    located(plan_of(recipe__base__sha256=with_copy), Events.in_memory()[0])
    with pytest.raises(BadInput, match=f"sha256 {digest}, the manifest says 00"):
        located(plan_of(recipe__base__sha256="0" * 64), Events.in_memory()[0])
    shard.unlink()
    with pytest.raises(Missing, match="lacks 1 of its 1 weight files, such as model-00001"):
        located(plan_of(), Events.in_memory()[0])


def test_a_base_whose_weights_cannot_be_fetched_has_a_hint(plan_of, tmp_path, monkeypatch):
    folder = tmp_path / "base"
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
    of_hub = plan_of(machine__paths__base=None, recipe__base__name="a/b")
    with pytest.raises(Missing, match="no safetensors files") as failure:
        located(of_hub, Events.in_memory()[0])
    assert "start again" in failure.value.hint
    assert "If a/b has only pickled weights (.bin), choose another base." in failure.value.hint
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "1-of-1.safetensors"}}')
    with pytest.raises(Missing, match="lacks 1 of its 1 weight files") as failure:
        located(of_hub, Events.in_memory()[0])
    assert "start again" in failure.value.hint


def edited(**keys):
    def change(base):
        document = json.loads((base / "config.json").read_text())
        (base / "config.json").write_text(json.dumps({**document, **keys}))

    return change


def with_tensors(change):
    def apply(base):
        save_file(change(load_file(base / "model.safetensors")), base / "model.safetensors", {"format": "pt"})

    return apply


def written(name, content):
    return lambda base: (base / name).write_bytes(content)


def cut(base):
    path = base / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


ODD_BASES = {
    "weights cut off": (cut, "model.safetensors cannot be read"),
    "weights empty": (written("model.safetensors", b""), "model.safetensors cannot be read"),
    "huge header": (written("model.safetensors", b"\xff" * 8 + b"{}"), "model.safetensors cannot be read"),
    "a pickle": (written("model.safetensors", b"\x80\x04cos\nsystem\n."), "model.safetensors cannot be read"),
    "one tensor missing": (
        with_tensors(lambda t: {n: p for n, p in t.items() if "q_proj" not in n}),
        "lacks 1 of",
    ),
    "other tensors": (with_tensors(lambda t: {f"x.{n}": p for n, p in t.items()}), "lacks"),
    "wrong shape": (
        with_tensors(lambda t: t | {"model.norm.weight": t["model.norm.weight"][:7]}),
        "norm|mismatch",
    ),
    "absurd width": (edited(hidden_size=10**9), "sets hidden_size to 1,000,000,000"),
    "absurd vocabulary": (edited(vocab_size=10**12), "sets vocab_size"),
    "absurd layers": (edited(num_hidden_layers=10**9), "sets num_hidden_layers"),
    "no width": (edited(hidden_size=0), "cannot be loaded|sets hidden_size to 0"),
    "width as text": (edited(hidden_size="64"), "cannot be loaded"),
    "heads do not divide": (edited(num_attention_heads=0), "cannot be loaded"),
    "unknown family": (edited(model_type="nothing-known"), "cannot be loaded"),
    "family a list": (edited(model_type=["llama"]), "cannot be loaded"),
    "activation unknown": (edited(hidden_act="nothing"), "cannot be loaded"),
    "rope odd": (edited(rope_parameters={"rope_type": "nothing"}), "cannot be loaded"),
    "dtype odd": (edited(dtype="nothing"), "cannot be loaded"),
    "its own code": (
        edited(model_type="odd", auto_map={"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}),
        "brings its own Python code|cannot be loaded",
    ),
    "config cut off": (written("config.json", b'{"model_type": "lla'), "cannot be loaded"),
    "config nested": (written("config.json", b"[" * 100_000), "cannot be loaded"),
    "config a list": (written("config.json", b"[]"), "cannot be loaded"),
    "config not UTF-8": (written("config.json", b"\xff\xfe{}"), "cannot be loaded"),
}


@pytest.mark.parametrize(("change", "said"), ODD_BASES.values(), ids=ODD_BASES.keys())
def test_an_odd_base_is_refused_in_words_and_runs_nothing(plan_of, tmp_path, change, said):
    base = tmp_path / "base"
    (base / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: ...\nclass M: ...\n")
    change(base)
    with pytest.raises(BadInput, match=said) as caught:
        loaded(plan_of(), Events.in_memory()[0])
    assert str(base) in caught.value.message and caught.value.hint and "\n" not in caught.value.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(Gemma2PreTrainedModel._supports_sdpa, reason="this transformers has SDPA for Gemma 2")
def test_a_family_without_sdpa_falls_back_to_eager_attention_and_says_so(plan_of, tmp_path):
    config = Gemma2Config(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=64,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "base")
    events, said = Events.in_memory()
    plan = plan_of()
    assert plan.machine.sdpa
    loaded(plan, events)
    (line,) = [it.body for it in said.events if it.body.type == "applied" and it.body.key == "attention"]
    assert line.value == "eager" and "Gemma2ForCausalLM has no SDPA attention" in line.note


def test_flash_attention_that_has_no_effect_is_named(plan_of):
    events, said = Events.in_memory()
    loaded(plan_of(machine__flash_attention=True), events)
    (warned,) = [line.body for line in said.events if line.body.type == "warning"]
    assert warned.code == "no-flash-attention" and "flash-attn needs CUDA" in warned.message
    assert applied(said)["attention"] == "sdpa"
