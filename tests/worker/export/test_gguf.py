"""GGUF exports, answered by llama.cpp itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from gguf import GGMLQuantizationType, GGUFReader, quants
from jinja2 import Environment
from peft import LoraConfig, get_peft_model
from plans import example_plan
from run_record.finals import final_of
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast, Qwen3Config

from expert_worker.errors import BadInput, Failed, Missing, Storage
from expert_worker.evaluate.prompts import PromptMaker
from expert_worker.events import Events
from expert_worker.events.models import WarningLine
from expert_worker.export import folders, gguf_files, llama_cpp
from expert_worker.export.modelfile import context_length, go_template, vllm_rank
from expert_worker.export.stage import run
from expert_worker.results import AnswerCheck
from expert_worker.run_record import Outcome
from expert_worker.run_record.card import model_card

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
CONFIGS = {"llama": LlamaConfig, "qwen3": Qwen3Config}
# Where the architecture decides nothing.
FIRST_BASE = pytest.mark.parametrize(
    "base", ["llama", pytest.param("qwen3", marks=pytest.mark.full)], indirect=True
)


def half(*levels: Collection[Any]) -> list[Any]:
    """All combinations; in `make test` half of them, with every pair of two levels."""
    return [
        pytest.param(*(value for _, value in combined), marks=[pytest.mark.full] * (odd % 2))
        for combined in product(*map(enumerate, levels))
        for odd in [sum(place for place, _ in combined)]
    ]


@cache
def tokenizer() -> Any:
    """A byte-level BPE of ASCII with a few merges."""
    alphabet = [*(chr(code) for code in range(33, 127)), "\u0120", "\u010a"]
    merges = [("t", "h"), ("th", "e"), ("i", "n")]
    special = ["<unk>", "<|im_start|>", "<|im_end|>"]
    texts = [*special, *alphabet, *("".join(pair) for pair in merges)]
    inner = Tokenizer(models.BPE(vocab={text: place for place, text in enumerate(texts)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(special)
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    made.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    return made


@pytest.fixture(params=CONFIGS)
def base(request: Any, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = CONFIGS[request.param](vocab_size=len(tokenizer()), tie_word_embeddings=True, **SIZES)
    model = AutoModelForCausalLM.from_config(config)
    # Rarely written: tokens without a text cannot be compared.
    model.get_input_embeddings().weight.data[:3] *= 0.05
    model.save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def plan(
    base: Path, template: str = "chatml", changes: Mapping[str, Any] | None = None, **request: Any
) -> Any:
    folder = base.parent
    data = folder / "test.jsonl"
    rows = [{"prompt": f"Say the number {n} in words", "completion": "a"} for n in range(6)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    return example_plan(
        folder,
        {
            "machine.paths.base": str(base),
            "machine.paths.data": {"test.jsonl": str(data)},
            "recipe.data.test": [source],
            "recipe.base.name": "Org/Tiny",
            "recipe.template": {"kind": template, "source": None},
            "recipe.decoding.max_new_tokens": 10,
            "recipe.decoding.stop_sequences": ["Q"],
            "recipe.decoding.temperature": 0.0,
            "request": {"stage": "export", "merge": False, "gguf": True, **request},
            **(changes or {}),
        },
    )


def trained(
    base: Path,
    modules: Sequence[str] = MODULES,
    template: str = "chatml",
    changes: Mapping[str, Any] | None = None,
    **lora: Any,
) -> Path:
    torch.manual_seed(1)
    config = LoraConfig(r=4, lora_alpha=16, target_modules=list(modules), task_type="CAUSAL_LM", **lora)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(std=0.3)
    made = plan(base, template, changes, adapter="a", target="b")
    card = model_card(made.recipe, Outcome(1, 1, 1, 1.0), made.recipe_digest)
    return final_of(model, tokenizer(), made.recipe, base.parent, card=card)


def export(base: Path, adapter: Path, target: Path, **request: Any) -> dict[str, Any]:
    return run(plan(base, adapter=str(adapter), target=str(target), **request), Events.in_memory()[0])  # type: ignore[return-value]


def use_in(card: str, target: Path) -> tuple[dict[str, Any], list[str]]:
    """The front matter of a card that names no folder of this machine, and the commands of its "Use"."""
    assert str(target.parent) not in card and "peft" not in card.partition("## Training")[0].lower()
    assert "## Results" in card and "`expert.json` has the digests" in card
    shell = card.split("```sh\n")[1].split("```", maxsplit=1)[0]
    return yaml.safe_load(card.split("---\n")[1]), shell.splitlines()


@pytest.mark.parametrize("base", ["llama"], indirect=True)
@pytest.mark.parametrize(("merge", "quantize"), [(False, None), (True, None), (True, "q8_0")])
def test_the_card_has_the_commands_that_use_the_files(
    merge: bool, quantize: str | None, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "compare", lambda *_, **__: AnswerCheck(asked=1, equal=1, near_ties=0))
    final, target = trained(base), tmp_path / "out"
    record = json.loads((final / "expert.json").read_text())
    (final / "expert.json").write_text(json.dumps({**record, "system_message": "Say\n```x"}))
    found = export(base, final, target, merge=merge, quantize=quantize)
    card = (target / "README.md").read_text()
    matter, commands = use_in(card, target)
    assert commands == [command.replace(f"{target}/", "") for command in found["commands"]]
    # llama-server's own temperature is above 0.
    assert commands[0].endswith(" --temp 0")
    assert all((target / word).is_file() for line in commands for word in line.split() if "." in word)
    relation = "merge" if merge else "adapter"
    assert (matter["library_name"], matter["base_model_relation"]) == ("gguf", relation)
    assert ("adapter merged into `Org/Tiny`" in card) is merge
    assert ("base_model:adapter:Org/Tiny" in matter["tags"]) is not merge
    assert json.loads(card.split("```json\n")[1].splitlines()[0])["content"] == "Say\n```x"
    (final / "README.md").write_text("# by hand\n")
    export(base, final, tmp_path / "other", merge=merge)
    assert not (tmp_path / "other" / "README.md").exists(), "it would say how to load another folder"


def prefix_answers(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    asked = llama_cpp._asked
    monkeypatch.setattr(llama_cpp, "_asked", lambda *request: [prefix + text for text in asked(*request)])


@pytest.mark.parametrize(("base", "lora"), half(CONFIGS, [{}, {"use_rslora": True}]), indirect=["base"])
def test_llama_cpp_answers_as_peft_does(lora: dict[str, Any], base: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    found = export(base, trained(base, **lora), target)
    assert found["answers"]["asked"] == 6 == found["answers"]["equal"] + found["answers"]["near_ties"]
    assert found["answers"]["equal"] >= 5
    names = {path.name for path in target.iterdir()}
    assert {"base.gguf", "expert-sample.gguf", "Modelfile", "chat_template.jinja", "expert.json"} <= names
    assert f"--lora {target / 'expert-sample.gguf'}" in found["commands"][0]


@pytest.mark.parametrize("base", ["llama"], indirect=True)
def test_llama_cpp_answers_as_peft_does_behind_an_empty_thought(base: Path, tmp_path: Path) -> None:
    found = export(base, trained(base, template="qwen3"), tmp_path / "out", template="qwen3")
    assert found["answers"]["equal"] >= 5


def test_a_merged_model_answers_as_peft_does(base: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    found = export(base, trained(base), target, merge=True)
    assert found["answers"]["equal"] >= 5 and found["merged"] is True
    assert [path.name for path in target.glob("*.gguf")] == ["expert-sample.gguf"]
    about = json.loads((target / "expert.json").read_text())
    assert "expert-sample.gguf" in about["files"]


@pytest.mark.parametrize(
    ("base", "merge", "quantize"), half(CONFIGS, [False, True], ["q8_0", "q4_1"]), indirect=["base"]
)
def test_quantized_weights_are_those_of_the_file(
    merge: bool, quantize: str, base: Path, tmp_path: Path
) -> None:
    target, kind = tmp_path / "out", quantize.upper()
    found = export(base, trained(base), target, merge=merge, quantize=quantize)
    answers = found["answers"]
    assert answers["asked"] == 6 == answers["equal"] + answers["near_ties"]
    assert 0 <= answers["equal_unquantized"] <= 6
    name = f"{'expert-sample' if merge else 'base'}.{kind}.gguf"
    assert {path.name for path in target.glob("*.gguf")} == {name, *([] if merge else ["expert-sample.gguf"])}
    assert f"FROM ./{name}\n" in (target / "Modelfile").read_text()
    assert f"-m {target / name}" in found["commands"][0]
    types = {it.name: it.tensor_type.name for it in GGUFReader(target / name).tensors}
    assert types["blk.0.attn_q.weight"] == types["blk.1.ffn_down.weight"] == kind
    assert types["token_embd.weight"] == "Q8_0" and types["blk.0.attn_norm.weight"] == "F32"


@pytest.mark.parametrize("base", ["llama"], indirect=True)
@pytest.mark.parametrize(("merge", "quantize"), [(False, None), (False, "q8_0"), (True, "q8_0")])
def test_the_room_that_is_asked_for_is_that_of_the_files(
    merge: bool, quantize: Any, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged weights are in a folder beside the file that they are written into."""
    adapter, asked = trained(base), list[int]()
    monkeypatch.setattr(folders, "demand_room", lambda needed, folder: asked.append(needed))
    export(base, adapter, tmp_path / "out", merge=merge, quantize=quantize)
    (model,) = (tmp_path / "out").glob("expert-sample*.gguf" if merge else "base*.gguf")
    written = sum(int(it.n_bytes) for it in GGUFReader(model).tensors)
    in_fp32 = (base / "model.safetensors").stat().st_size if merge else 0
    assert asked == [pytest.approx(written + in_fp32, rel=0.02)]


def test_an_export_without_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    folders.demand_room(2**20, tmp_path / "out")
    with pytest.raises(Storage, match=r"The export needs 2\.1 MB; 1\.0 MB are free"):
        folders.demand_room(2**21, tmp_path / "out")


def test_weights_that_came_from_blocks_go_back_unchanged() -> None:
    """As the embedded base's do, which is made of 4-bit blocks."""
    torch.manual_seed(3)
    kind = GGMLQuantizationType.Q4_1
    first = quants.quantize(torch.randn(8, 64).numpy(), kind)
    assert (quants.quantize(quants.dequantize(first, kind), kind) == first).all()


@pytest.mark.parametrize(
    ("base", "quantize", "spoiled"),
    half(CONFIGS, [None, "q8_0"], ["scale", "order", "answer"]),
    indirect=["base"],
)
def test_a_file_that_answers_otherwise_is_not_exported(
    spoiled: str, quantize: str | None, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spoiled == "scale":
        sqrt = gguf_files.math.sqrt
        monkeypatch.setattr(gguf_files.math, "sqrt", lambda number: 4 * sqrt(number))
    elif spoiled == "order":
        placed = gguf_files.Shape.placed
        monkeypatch.setattr(
            gguf_files.Shape,
            "placed",
            lambda self, name, tensor: placed(self, name, tensor)[::-1] if "lora" not in name else tensor,
        )
    else:
        prefix_answers(monkeypatch, "another ")
    final = trained(base, use_rslora=True)
    with pytest.raises(Failed, match="answers otherwise"):
        export(base, final, tmp_path / "out", quantize=quantize)
    assert not (tmp_path / "out").exists()


@FIRST_BASE
def test_modules_may_differ_in_rank_but_not_in_alpha(base: Path, tmp_path: Path) -> None:
    found = export(base, trained(base, rank_pattern={"q_proj": 2, "down_proj": 8}), tmp_path / "ranks")
    assert found["answers"]["equal"] >= 5
    for pattern in ({"alpha_pattern": {"q_proj": 4}}, {"rank_pattern": {"q_proj": 2}, "use_rslora": True}):
        with pytest.raises(BadInput, match=r"_pattern of .* has no form in GGUF") as refused:
            export(base, trained(base, **pattern), tmp_path / "out")
        # `serve --engine auto` then takes transformers.
        assert refused.value.code == "adapter-not-gguf"
    assert not (tmp_path / "out").exists()


@FIRST_BASE
def test_an_adapter_on_a_shared_head_is_merged_or_refused(base: Path, tmp_path: Path) -> None:
    final, target = trained(base, modules=[*MODULES, "lm_head"]), tmp_path / "out"
    assert export(base, final, tmp_path / "merged", merge=True)["answers"]["equal"] >= 5
    with pytest.raises(BadInput, match="An adapter on lm_head has no form in GGUF") as refused:
        export(base, final, target)
    assert refused.value.code == "adapter-not-gguf"
    with pytest.raises(BadInput, match=r"tensor .*lm_head.* has no form in MLX"):
        export(base, final, target, gguf=False, mlx=True)
    assert not target.exists()


@FIRST_BASE
def test_kinds_and_architectures_without_a_form_are_refused(base: Path, tmp_path: Path) -> None:
    final = trained(base, use_dora=True)
    with pytest.raises(BadInput, match="An adapter of the kind DoRA has no form in GGUF"):
        export(base, final, tmp_path / "out")
    config = json.loads((base / "config.json").read_text())
    for change, message in (
        ({"model_type": "gpt_neox"}, "architecture gpt_neox"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "scales its rotary embedding"),
        (
            {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
            r"scales its rotary embedding \(linear\)",
        ),
        ({"sliding_window": 8, "use_sliding_window": True}, "sliding-window"),
    ):
        (base / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(BadInput, match=message):
            gguf_files.Shape.of(base)


@FIRST_BASE
def test_a_tokenizer_with_more_tokens_than_the_base_has_vectors_is_refused(
    base: Path, tmp_path: Path
) -> None:
    final = trained(base)
    larger = PreTrainedTokenizerFast.from_pretrained(base)
    larger.add_tokens(["<spare>"])
    larger.save_pretrained(base)
    with pytest.raises(BadInput, match=r"the token '<spare>' with the id .* token vectors") as refused:
        export(base, final, tmp_path / "out")
    # `serve` takes transformers then.
    assert refused.value.code == "gguf-unknown"


@FIRST_BASE
def test_the_modelfile_ends_answers_and_renders_as_the_template(base: Path, tmp_path: Path) -> None:
    export(base, trained(base), tmp_path / "out")
    text = (tmp_path / "out" / "Modelfile").read_text()
    assert text.startswith('FROM ./base.gguf\nADAPTER ./expert-sample.gguf\nTEMPLATE """')
    for line in (
        "temperature 0.0",
        "num_predict 10",
        "num_ctx 512",
        "repeat_penalty 1.0",
        'stop "<|im_end|>"',
        'stop "Q"',
    ):
        assert f"PARAMETER {line}\n" in text
    assert "repeat_last_n" not in text and "SYSTEM" not in text


def stops_of_ollama(modelfile: str) -> list[str]:
    """As its parser has it: a value continues over line ends until `unquote` takes it."""

    def unquoted(text: str) -> str | None:
        for quotes in ('"""', '"'):
            if text.startswith(quotes):
                whole = len(text) >= 2 * len(quotes) and text.endswith(quotes)
                return text[len(quotes) : -len(quotes)] if whole else None
        return text

    def value(lines: list[str]) -> str:
        begun = (unquoted("\n".join(lines[:count]).strip()) for count in range(1, len(lines) + 1))
        return next(text for text in begun if text is not None)

    return [value(part.split("\n")) for part in modelfile.split("PARAMETER stop ")[1:]]


@pytest.mark.parametrize("base", ["llama"], indirect=True)
def test_ollama_reads_each_stop_text_as_it_is(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "compare", lambda *_, **__: AnswerCheck(asked=1, equal=1, near_ties=0))
    stops = ["\n", "\n\nUser:", "a\\n", 'say "', '"', '"\n""x', " end "]
    changes = {"recipe.decoding.stop_sequences": [*stops, 'x"""']}
    events, told = Events.in_memory()
    final, target = trained(base, changes=changes), tmp_path / "out"
    run(plan(base, adapter=str(final), target=str(target), changes=changes), events)
    assert stops_of_ollama((target / "Modelfile").read_text()) == ["<|im_end|>", *stops]
    (warning,) = [event.body for event in told.events if isinstance(event.body, WarningLine)]
    assert warning.code == "stop-not-in-modelfile"


@FIRST_BASE
def test_template_and_settings_of_answers_are_those_of_the_run(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest names others since. A bare checkpoint has only those."""
    asked = []
    monkeypatch.setattr(
        llama_cpp,
        "compare",
        lambda reference, *_, **__: (
            asked.append(reference.decoding) or AnswerCheck(asked=1, equal=1, near_ties=0)
        ),
    )
    run_of = {
        "recipe.decoding.stop_sequences": ["Q", "<unk>"],
        "recipe.decoding.temperature": 0.5,
        "recipe.decoding.min_p": 0.1,
        "recipe.decoding.top_k": 7,
    }
    final = trained(base, changes=run_of)
    export(base, final, tmp_path / "same", changes=run_of)
    manifest = {
        "recipe.decoding.stop_sequences": ["END"],
        "recipe.decoding.max_new_tokens": 20,
    }
    export(base, final, tmp_path / "changed", template="phi", changes=manifest)
    same, changed = ((tmp_path / name / "Modelfile").read_text() for name in ("same", "changed"))
    assert 'stop "<unk>"' in same and "temperature 0.5" in same and "min_p 0.1" in same
    assert changed == same and "num_predict 10" in changed and "<|im_start|>" in changed
    assert set(asked[0].stop_sequences) == set(asked[1].stop_sequences) == {"Q", "<unk>"}
    model = GGUFReader(tmp_path / "changed" / "base.gguf").fields["tokenizer.chat_template"].contents()
    assert model == (final / "chat_template.jinja").read_text()
    (final / "expert.json").unlink()
    export(base, final, tmp_path / "bare", template="phi", changes=manifest)
    bare = (tmp_path / "bare" / "Modelfile").read_text()
    assert "num_predict 20" in bare and 'stop "END"' in bare and 'stop "Q"' not in bare


@FIRST_BASE
def test_the_modelfile_of_a_checkpoint_has_the_system_message_of_its_run(base: Path, tmp_path: Path) -> None:
    final = trained(base)
    record = json.loads((final / "expert.json").read_text())
    (final / "expert.json").write_text(json.dumps({**record, "system_message": "Answer in SQL."}))
    checkpoint = final.parent / "checkpoint-1"
    checkpoint.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(final / name, checkpoint)
    (checkpoint / "state.json").write_text("{}")
    export(base, checkpoint, tmp_path / "out")
    assert '\nSYSTEM """Answer in SQL."""\n' in (tmp_path / "out" / "Modelfile").read_text()


@FIRST_BASE
def test_the_modelfile_has_the_system_message_of_training(base: Path, tmp_path: Path) -> None:
    final = trained(base)
    record = json.loads((final / "expert.json").read_text())
    for number, (message, is_there) in enumerate((('Answer "in" SQL.', True), ('Say """', False))):
        (final / "expert.json").write_text(json.dumps({**record, "system_message": message}))
        export(base, final, tmp_path / f"out{number}")
        text = (tmp_path / f"out{number}" / "Modelfile").read_text()
        assert (f'\nSYSTEM """{message}"""\n' in text) is is_there
        assert ("SYSTEM" in text) is is_there


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# With a system message of the base's own where the caller gives none, and a prompt that begins the answer.
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nHelp.<|im_end|>\n{% endif %}"
    f"{CHATML}{{% if add_generation_prompt %}}<think>\n\n</think>\n{{% endif %}}"
)
# `{{` and `}}` are Go's too; the end of an answer differs from that of a question.
BRACKETS = (
    "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}</s>"
    "{% else %}{{ '[{{ ' }}{{ m.content }} }}]{% endif %}{% endfor %}"
)
# What a Modelfile's template uses of Go, in Jinja's words.
IN_JINJA = {
    '{{ $role := "" }}': "{% set at = namespace(role='') %}",
    '{{ $role = "user" }}': "{% set at.role = 'user' %}",
    '{{ $role = "assistant" }}': "{% set at.role = 'assistant' %}",
    '{{ if eq $role "assistant" }}': "{% if at.role == 'assistant' %}",
    '{{ if ne $role "assistant" }}': "{% if at.role != 'assistant' %}",
    '{{ if eq .Role "user" }}': "{% if m.role == 'user' %}",
    '{{ else if eq .Role "assistant" }}': "{% elif m.role == 'assistant' %}",
    "{{ if .System }}": "{% if system %}",
    "{{ else }}": "{% else %}",
    "{{ .System }}": "{{ system }}",
    "{{ .Content }}": "{{ m.content }}",
}


def by_ollama(template: str, messages: list[dict[str, str]]) -> str:
    """As Ollama renders a template with `.Messages`: once, with all system messages joined."""
    head, loop, rest = template.partition("{{ range .Messages }}")
    assert loop, "a template without it is rendered once for each turn"
    inside, _, tail = rest.partition('{{ if ne $role "assistant" }}')
    assert inside.endswith("{{ end }}{{ end }}")
    inside = inside.removesuffix("{{ end }}") + "{% endfor %}"
    text = f'{head}{{% for m in messages %}}{inside}{{{{ if ne $role "assistant" }}}}{tail}'
    for go, jinja in IN_JINJA.items():
        text = text.replace(go, jinja)
    text = text.replace("{{ end }}", "{% endif %}")
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    made: str = (
        Environment(keep_trailing_newline=True).from_string(text).render(messages=messages, system=system)
    )
    return made


def said(*turns: str) -> list[dict[str, str]]:
    return [{"role": turn.partition(" ")[0], "content": turn} for turn in turns]


@pytest.mark.parametrize("template", [CHATML, DEFAULT_SYSTEM, BRACKETS])
def test_ollama_renders_conversations_as_the_chat_template(template: str) -> None:
    found = go_template(tokenizer(), template)
    assert found is not None
    conversations = [
        said("user one"),
        said("user one", "assistant two", "user three"),
        said("user one", "assistant two", "user three", "assistant four", "user five"),
    ]
    if template != BRACKETS:
        conversations += [[*said("system be short"), *one] for one in conversations]
    for messages in conversations:
        expected = tokenizer().apply_chat_template(
            messages, chat_template=template, add_generation_prompt=True, tokenize=False
        )
        assert by_ollama(found, messages) == expected
    # An answer that is to be continued is left open.
    assert by_ollama(found, said("user one", "assistant two")).endswith("assistant two")


def test_ollamas_template_has_the_date_of_the_training_rows_and_not_of_the_export() -> None:
    dated = "{{ 'Today is ' + strftime_now('%d %b %Y') + '. ' }}" + CHATML
    found = go_template(tokenizer(), dated)
    assert found is not None and found.count("Today is 26 Jul 2024. ") >= 1
    rendered = PromptMaker(tokenizer(), dated).text(said("user one"))
    assert by_ollama(found, said("user one")) == rendered


def test_a_template_of_one_turn_or_none_is_found_out() -> None:
    last = "{{ '{{' }}{{ messages[-1].content }}"
    assert go_template(tokenizer(), last) == '{{ "{{" }}{{ .Prompt }}{{ .Response }}'
    for unfit in ("{{ messages[0].content | upper | length }}", "{{ raise_exception('no') }}"):
        assert go_template(tokenizer(), unfit) is None


def test_ollamas_penalty_is_the_bases_and_its_context_holds_the_longest_row(
    base: Path, tmp_path: Path
) -> None:
    settings = {"eos_token_id": 2, "repetition_penalty": 1.25}
    (base / "generation_config.json").write_text(json.dumps(settings))
    target = tmp_path / "out"
    found = export(base, trained(base), target)
    text = (target / "Modelfile").read_text()
    for line in ("repeat_penalty 1.25", "repeat_last_n -1", "num_ctx 512"):
        assert f"PARAMETER {line}\n" in text
    # llama.cpp is asked with it too, and llama-server is started with it.
    assert found["answers"]["equal"] >= 5
    card = (target / "README.md").read_text()
    _, commands = use_in(card, target)
    assert commands[0].endswith(" --temp 0 --repeat-penalty 1.25 --repeat-last-n 131072")
    assert commands == [command.replace(f"{target}/", "") for command in found["commands"]]
    assert "repetition penalty of 1.25, for all tokens" in card
    assert [context_length(*it) for it in ((256, 64, 8192), (6000, 100, 8192), (6000, 100, None))] == [
        4096,
        6100,
        6100,
    ]


def test_vllms_rank_is_one_that_it_takes() -> None:
    assert [vllm_rank(rank) for rank in (1, 8, 9, 64, 300)] == [8, 8, 16, 64, 320]


@FIRST_BASE
def test_answers_that_part_at_nearly_equal_tokens_are_counted(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix_answers(monkeypatch, "Z")
    monkeypatch.setattr(llama_cpp, "NEAR", 1e9)
    found = export(base, trained(base), tmp_path / "out")
    assert found["answers"] == {"asked": 6, "equal": 0, "near_ties": 6}


@FIRST_BASE
def test_questions_are_those_that_llama_cpp_has_room_for(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here each character is a token: few tokens have several."""
    asked: list[str] = []
    monkeypatch.setattr(
        llama_cpp,
        "compare",
        lambda reference, model, adapter, questions, *_, **__: (
            asked.extend(str(question[-1]["content"]) for question in questions)
            or AnswerCheck(asked=1, equal=1, near_ties=0)
        ),
    )
    made = plan(base, adapter=str(trained(base)), target=str(tmp_path / "out"))
    rows = [{"prompt": f"{text} z", "completion": "a"} for text in ("zq" * 1200, "zq" * 10)]
    Path(made.machine.paths.data["test.jsonl"]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(made, Events.in_memory()[0])
    assert asked == ["zq" * 10 + " z"]


@FIRST_BASE
def test_without_llama_cpp_nothing_is_loaded_and_the_extra_is_named(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda _: None)
    events, memory = Events.in_memory()
    with pytest.raises(Missing, match="not installed") as refused:
        run(plan(base, adapter=str(trained(base)), target=str(tmp_path / "out")), events)
    assert "expert-worker[serve]" in str(refused.value.hint) and not memory.events


@FIRST_BASE
def test_a_library_that_aborts_ends_the_export_with_a_message(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken" / "xllamacpp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("import os, sys\nprint('no room', file=sys.stderr)\nos.abort()\n")
    monkeypatch.syspath_prepend(str(broken.parent))
    with pytest.raises(Failed, match="ended with status -6 before it had answered: no room"):
        export(base, trained(base), tmp_path / "out")
    assert not (tmp_path / "out").exists()
