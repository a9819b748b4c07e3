"""Export: loadable by others, saying what the adapter says, and nothing at all where it would not."""

import errno
import hashlib
import json
import os
import shlex
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import (
    AdaLoraConfig,
    IA3Config,
    LoKrConfig,
    LoraConfig,
    PeftModel,
    PromptTuningConfig,
    get_peft_model,
)
from plans import example_plan
from run_record.finals import final_of
from safetensors import safe_open
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma3Config, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

from expert_worker.base import base_config
from expert_worker.base.quantized import config_of, prepare
from expert_worker.errors import BadInput, Failed, Interrupted, Storage
from expert_worker.events import Events
from expert_worker.export import folders, stage
from expert_worker.export.licenses import copy_base_license
from expert_worker.export.modelfile import vllm_command
from expert_worker.export.stage import _named_rope, run
from expert_worker.plan import Grammar, Machine
from expert_worker.process.work_folder import create_work_folder
from expert_worker.run_record import Outcome
from expert_worker.run_record.card import model_card
from expert_worker.run_record.digests import base_digests
from expert_worker.run_record.expert import replace_grammar

IDS = torch.arange(12).reshape(1, 12)
MODULES = ["q_proj", "v_proj", "down_proj"]
ADAPTERS: dict[str, Any] = {
    "lora": LoraConfig(r=4, target_modules=MODULES, task_type="CAUSAL_LM"),
    "dora": LoraConfig(r=4, target_modules=MODULES, use_dora=True, task_type="CAUSAL_LM"),
    "ia3": IA3Config(target_modules=MODULES, feedforward_modules=["down_proj"], task_type="CAUSAL_LM"),
    "lokr": LoKrConfig(r=4, target_modules=MODULES, task_type="CAUSAL_LM"),
    "adalora": AdaLoraConfig(
        init_r=4, target_r=2, total_step=9, target_modules=MODULES, task_type="CAUSAL_LM"
    ),
    "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
}


def tokenizer() -> Fast:
    words = {"<end>": 0} | {f"w{index}": index for index in range(1, 96)}
    return Fast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<end>")), eos_token="<end>")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def trained(kind: Any, base: Path, output: Path, temperature: float = 0.0) -> Path:
    """`kind` is a key of ADAPTERS, or a config."""
    torch.manual_seed(1)
    chosen = ADAPTERS[kind] if isinstance(kind, str) else kind
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), chosen)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    changes = {"recipe.template.kind": "chatml", "recipe.decoding.temperature": temperature}
    plan = example_plan(output, changes)
    recipe = plan.recipe
    card = model_card(recipe, Outcome(1, 1, 1, 1.0), plan.recipe_digest)
    return final_of(model, tokenizer(), recipe, output, base="/home/me/tiny", card=card)


def order(base: Path, adapter: Path, target: Path, **options: Any) -> Any:
    changes: dict[str, Any] = {
        "machine.paths.base": str(base),
        "recipe.base.name": options.get("name", "Org/Tiny"),
        "recipe.template.kind": "chatml",
        "recipe.adapter.rank": 64,
        "recipe.base.quantization": options.get("quantization", "none"),
        "machine.dtype": options.get("dtype", "fp32"),
        "request": {
            "stage": "export",
            "adapter": str(adapter),
            "target": str(target),
            "merge": options.get("merge", False),
            **({options["form"]: True} if "form" in options else {}),
        },
        "recipe.base.rope_scaling": options.get("rope_scaling"),
    }
    return example_plan(target.parent, changes)


def said(base: Path, adapter: Path) -> torch.Tensor:
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), str(adapter)).eval()
    with torch.no_grad():
        return model(IDS).logits


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_plain_adapter_is_whole_and_the_same(kind: str, base: Path, tmp_path: Path) -> None:
    final = trained(kind, base, tmp_path)
    target = tmp_path / "shared" / "adapter"
    result = run(order(base, final, target), Events.in_memory()[0])
    assert result["logits_difference"] == 0.0 and result["merged"] is False
    assert {p.name for p in target.iterdir()} == {p.name for p in final.iterdir()}
    assert torch.equal(said(base, final), said(base, target))
    # Kind and rank are the adapter's: the plan's are those of a LoRA of rank 64.
    ranks = ["8"] if kind == "lora" else []
    assert [words.split("--max-lora-rank ")[1].split()[0] for words in result["commands"]] == ranks


@pytest.mark.skipif(os.name != "posix", reason="there are no modes of files")
@pytest.mark.parametrize("options", [{"merge": True}, {"form": "mlx"}, {}])
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_whom_the_umask_allows_reads_every_file(
    umask: int, mode: int, options: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    final = trained("lora", base, tmp_path)
    before = os.umask(umask)
    try:
        run(order(base, final, tmp_path / "out", **options), Events.in_memory()[0])
    finally:
        os.umask(before)
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert "README.md" in found and set(found.values()) == {mode}, found


@pytest.mark.parametrize(
    ("form", "before"), [("plain", ["vllm", "serve"]), ("mlx", ["mlx_lm.server", "--model"])]
)
def test_a_command_names_the_base_as_a_program_finds_it(
    form: str, before: list[str], base: Path, tmp_path: Path
) -> None:
    final, options = trained("lora", base, tmp_path), {} if form == "plain" else {"form": form}
    for name, expected in (("tiny", str(base)), ("Org/Tiny", "Org/Tiny")):
        plan = order(base, final, tmp_path / "out" / expected.strip("/"), name=name, **options)
        (command,) = run(plan, Events.in_memory()[0])["commands"]
        assert shlex.split(command)[: len(before) + 1] == [*before, expected]


def test_a_command_for_vllm_holds_the_largest_rank() -> None:
    config = {"peft_type": "LORA", "r": 8, "rank_pattern": {"q_proj": 40, "v_proj": 4}}
    command = vllm_command(Path("adapter"), "words", "Org/Tiny", config, greedy=True)
    assert command is not None and "--max-lora-rank 64 " in command


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("merge", [False, True])
def test_vllm_keeps_to_the_temperature_that_was_scored(
    merge: bool, temperature: float, base: Path, tmp_path: Path
) -> None:
    """It reads no `do_sample`, and the settings of the base where no folder is named beside an adapter."""
    final, target = trained("lora", base, tmp_path, temperature), tmp_path / "out"
    (command,) = run(order(base, final, target, merge=merge), Events.in_memory()[0])["commands"]
    settings = [] if merge else ["--generation-config", str(target)]
    greedy = [] if temperature else ["--override-generation-config", '{"temperature": 0.0}']
    before = ["expert-sample"] if merge else [str(target / "chat_template.jinja")]
    words = shlex.split(command)
    assert words[words.index(before[0]) :] == [*before, *settings, *greedy]
    assert json.loads((target / "generation_config.json").read_text()).get("temperature", 0) == temperature


@pytest.mark.parametrize("kind", [kind for kind in ADAPTERS if kind != "prompt"])
def test_a_merged_model_needs_no_peft(kind: str, base: Path, tmp_path: Path) -> None:
    final = trained(kind, base, tmp_path)
    target = tmp_path / "merged"
    result = run(order(base, final, target, merge=True), Events.in_memory()[0])
    model = AutoModelForCausalLM.from_pretrained(target).eval()
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, said(base, final), rtol=1e-4, atol=1e-5)
    assert result["logits_difference"] < 1e-5
    assert result["bytes"] == sum(p.stat().st_size for p in target.iterdir())
    assert AutoTokenizer.from_pretrained(target).eos_token == "<end>"
    assert not (target / "adapter_config.json").exists()
    assert not any(str(base) in p.read_text() for p in target.glob("*.json"))


@pytest.mark.parametrize("module", ["lm_head", "embed_tokens"])
def test_a_shared_head_is_untied_where_the_merge_changes_one_side(
    module: str, base: Path, tmp_path: Path
) -> None:
    adapted = LoraConfig(r=4, target_modules=["q_proj", module], task_type="CAUSAL_LM")
    final, target = trained(adapted, base, tmp_path), tmp_path / "merged"
    assert run(order(base, final, target, merge=True), Events.in_memory()[0])["logits_difference"] < 1e-5
    model = AutoModelForCausalLM.from_pretrained(target).eval()
    torch.testing.assert_close(model(IDS).logits, said(base, final), rtol=1e-4, atol=1e-5)
    assert json.loads((target / "config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.parametrize("kind", ["default", "linear"])
def test_rotary_settings_have_the_names_that_other_programs_read(
    kind: str, base: Path, tmp_path: Path
) -> None:
    own, scaled = tmp_path / "own", {"rope_type": kind, **({"factor": 2.0} if kind == "linear" else {})}
    shutil.copytree(base, own)
    config = json.loads((own / "config.json").read_text())
    config["rope_parameters"] = {"rope_theta": 50.0, **scaled}
    (own / "config.json").write_text(json.dumps(config))
    final, target = trained("lora", own, tmp_path), tmp_path / "merged"
    assert run(order(own, final, target, merge=True), Events.in_memory()[0])["logits_difference"] < 1e-5
    found = json.loads((target / "config.json").read_text())
    assert found["rope_theta"] == 50.0 == found["rope_parameters"]["rope_theta"]
    assert found.get("rope_scaling") == (scaled if kind == "linear" else None)
    torch.testing.assert_close(
        AutoModelForCausalLM.from_pretrained(target).eval()(IDS).logits,
        said(own, final),
        rtol=1e-4,
        atol=1e-5,
    )


def test_an_adapter_of_a_scaled_base_names_the_scaling(base: Path, tmp_path: Path) -> None:
    events, memory = Events.in_memory()
    final, target = trained("lora", base, tmp_path), tmp_path / "adapter"
    plan = order(base, final, target, rope_scaling={"kind": "linear", "factor": 8.0})
    (command,) = run(plan, events)["commands"]
    words = shlex.split(command)
    rope = json.loads(words[words.index("--hf-overrides") + 1])["rope_parameters"]
    assert rope == {"rope_theta": 10000.0, "rope_type": "linear", "factor": 8.0}
    (warning,) = [e.body for e in memory.events if getattr(e.body, "code", "") == "rope-beside-adapter"]
    assert 'rope_scaling {"rope_type": "linear", "factor": 8.0}' in warning.message


@pytest.mark.parametrize("form", ["gguf", "mlx"])
def test_a_form_without_the_scaling_of_the_base_is_refused_by_its_cause(
    form: str, base: Path, tmp_path: Path
) -> None:
    final, target = trained("lora", base, tmp_path), tmp_path / "out"
    plan = order(base, final, target, rope_scaling={"kind": "linear", "factor": 8.0}, form=form)
    with pytest.raises(BadInput, match=r"Training scaled the base's rotary embedding \(linear\)"):
        run(plan, Events.in_memory()[0])
    assert not target.exists()


@pytest.mark.parametrize("own", [None, "llama3"])
@pytest.mark.parametrize("kind", ["linear", "yarn", "dynamic"])
def test_the_card_loads_the_base_with_its_scaling(
    kind: str, own: str | None, base: Path, tmp_path: Path
) -> None:
    """Also where the base comes with a scaling."""
    folder = shutil.copytree(base, tmp_path / "own")
    if own is not None:
        config = json.loads((folder / "config.json").read_text())
        parts = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        parts["original_max_position_embeddings"] = 64
        config["rope_parameters"] |= {"rope_type": own, **parts}
        (folder / "config.json").write_text(json.dumps(config))
    changes = {"recipe.base.name": str(folder), "recipe.base.rope_scaling": {"kind": kind, "factor": 4.0}}
    recipe = example_plan(tmp_path, changes).recipe
    card = model_card(recipe, Outcome(1, 1, 1, 1.0), "digest")
    code = card.split("```python\n")[1].split("model = PeftModel")[0].replace("path/to/", "")
    found: dict[str, Any] = {}
    exec(code, found)
    scaled = base_config(folder, recipe.base.rope_scaling)
    assert found["base"].config.rope_parameters == scaled.rope_parameters
    for length in (32, 100, 2100):
        x, positions = torch.zeros(1, 1, 1), torch.arange(length)[None]
        wanted = LlamaForCausalLM(scaled).model.rotary_emb(x, positions)
        assert all(map(torch.equal, found["base"].model.rotary_emb(x, positions), wanted)), length


@pytest.mark.parametrize("kind", ["linear", "dynamic"])
def test_the_card_scales_a_base_with_a_text_part_and_settings_by_kind_of_layer(
    kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    Gemma3Config(text_config={"max_position_embeddings": 64}, vision_config={}).save_pretrained(folder)
    (folder / "model.safetensors").touch()
    scaling = {"kind": kind, "factor": 4.0}
    changes = {"recipe.base.name": str(folder), "machine.paths.base": str(folder)}
    plan = example_plan(tmp_path, changes | {"recipe.base.rope_scaling": scaling})
    card = model_card(plan.recipe, Outcome(1, 1, 1, 1.0), "digest")
    code = card.split("```python\n")[1].split("base = AutoModel")[0].replace("path/to/", "")
    found: dict[str, Any] = {}
    exec(code, found)
    scaled = base_config(folder, plan.recipe.base.rope_scaling).text_config
    assert found["config"].text_config.rope_parameters == scaled.rope_parameters
    assert scaled.rope_parameters["full_attention"]["rope_type"] == kind
    named = _named_rope(plan.recipe.base, plan.machine.paths, Events.in_memory()[0])
    assert named == {"text_config": {"rope_parameters": scaled.rope_parameters}}


@pytest.mark.parametrize("computed", ["fp32", "bf16"])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_a_merged_model_is_written_in_the_bases_own_dtype(
    stored: torch.dtype, computed: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its size decides whether a GPU has room for it."""
    asked: list[tuple[int, str]] = []
    where_it_fits = folders.where_it_fits

    def noted(machine: Machine, needed: int, computed: str, events: Events) -> Machine:
        asked.append((needed, machine.dtype))
        return where_it_fits(machine, needed, computed, events)

    monkeypatch.setattr(folders, "where_it_fits", noted)
    own = tmp_path / "own"
    shutil.copytree(base, own)
    AutoModelForCausalLM.from_pretrained(base, dtype=stored).save_pretrained(own)
    target = tmp_path / "merged"
    plan = order(own, trained("lora", base, tmp_path), target, merge=True, dtype=computed)
    result = run(plan, Events.in_memory()[0])
    assert result["logits_difference"] < (1e-5 if stored is torch.float32 else 6e-2)
    with safe_open(target / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {stored}  # noqa: SIM118
    assert json.loads((target / "config.json").read_text())["dtype"] == str(stored).removeprefix("torch.")
    name = "fp32" if stored is torch.float32 else "bf16"
    assert asked == [((own / "model.safetensors").stat().st_size, name)]


@pytest.mark.parametrize("quantization", ["int4", "int8"])
def test_a_quantized_base_is_merged_unquantized_and_compared_with_both(
    quantization: Any, base: Path, tmp_path: Path
) -> None:
    events, memory = Events.in_memory()
    final = trained("lora", base, tmp_path)
    result = run(order(base, final, tmp_path / "merged", merge=True, quantization=quantization), events)
    assert [e.body.code for e in memory.events if e.body.type == "warning"] == ["merged-unquantized"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert {p.dtype for p in model.parameters()} == {torch.float32}

    config = config_of(quantization, torch.float32)
    held = AutoModelForCausalLM.from_pretrained(base, quantization_config=config, device_map={"": "cpu"})
    prepare(held)
    of_trained = folders.logits(PeftModel.from_pretrained(held, str(final)).eval())
    apart = folders.difference(of_trained, folders.logits(model.eval()))
    assert result["logits_difference"] == pytest.approx(apart, rel=1e-3) and apart > 1e-3
    (both,) = [e.body for e in memory.events if getattr(e.body, "key", "") == "merged_difference"]
    assert both.value["unquantized"] < 1e-5 and both.value[quantization] == result["logits_difference"]
    assert f"on the base in {quantization}, which it was trained on" in both.note


def test_a_quantized_base_that_does_not_load_here_is_merged_all_the_same(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, (events, memory) = folders.load_base, Events.in_memory()

    def loaded(wanted: Any, *rest: Any, **named: Any) -> Any:
        if wanted.quantization == "int4":
            raise BadInput("no int4 here")
        return load(wanted, *rest, **named)

    monkeypatch.setattr(folders, "load_base", loaded)
    final = trained("lora", base, tmp_path)
    plan = order(base, final, tmp_path / "merged", merge=True, quantization="int4")
    assert run(plan, events)["logits_difference"] < 1e-5
    warned = [e.body for e in memory.events if e.body.type == "warning"]
    assert [one.code for one in warned] == ["merged-unquantized", "merged-not-compared"]
    assert "on the unquantized base alone: no int4 here" in warned[1].message


def test_what_differs_is_not_exported(base: Path, tmp_path: Path, monkeypatch) -> None:
    write = LlamaForCausalLM.save_pretrained

    def spoiled(self: Any, *rest: Any, **named: Any) -> None:
        with torch.no_grad():
            self.model.layers[0].mlp.up_proj.weight.mul_(1.5)
        write(self, *rest, **named)

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", spoiled)
    final = trained("lora", base, tmp_path)
    with pytest.raises(Failed, match="does not say what the adapter says"):
        run(order(base, final, tmp_path / "merged", merge=True), Events.in_memory()[0])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["final"]


def test_a_soft_prompt_cannot_be_merged(base: Path, tmp_path: Path) -> None:
    final = trained("prompt", base, tmp_path)
    with pytest.raises(BadInput, match="soft prompt"):
        run(order(base, final, tmp_path / "merged", merge=True), Events.in_memory()[0])


def test_other_forms_name_the_kind_and_an_export_that_works(base: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    prompt, layers = trained("prompt", base, tmp_path / "a"), trained("ia3", base, tmp_path / "b")
    for options, form in (({"form": "gguf"}, "GGUF"), ({"form": "mlx"}, "MLX")):
        with pytest.raises(BadInput, match=f"A soft prompt has no form in {form}") as refused:
            run(order(base, prompt, tmp_path / "out", **options), Events.in_memory()[0])
        assert (refused.value.hint or "").startswith("Export it with --adapter")
        with pytest.raises(
            BadInput, match=rf"An adapter of the kind \(IA\)³ has no form in {form}"
        ) as refused:
            run(order(base, layers, tmp_path / "out", **options), Events.in_memory()[0])
        assert "--merge" in (refused.value.hint or "")
    with pytest.raises(BadInput, match="A soft prompt cannot be merged"):
        run(order(base, prompt, tmp_path / "out", form="gguf", merge=True), Events.in_memory()[0])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_target_that_is_a_link_is_not_written_through(is_there: bool, base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    folder, link = tmp_path / "elsewhere", tmp_path / "link"
    link.symlink_to(folder)
    if is_there:
        folder.mkdir()
    with pytest.raises(BadInput, match="link is in use"):
        run(order(base, final, link), Events.in_memory()[0])
    assert link.is_symlink() and folder.is_dir() is is_there


def test_a_full_disk_is_named_without_resuming(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = trained("lora", base, tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stage, "_build", full)
    with pytest.raises(Storage, match=r"Cannot write out in .*No space left") as refused:
        run(order(base, final, tmp_path / "out"), Events.in_memory()[0])
    assert refused.value.hint == "Free some space, then run the command again."


def test_a_used_target_is_refused_and_an_empty_one_is_not(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    target = tmp_path / "here"
    target.mkdir()
    run(order(base, final, target), Events.in_memory()[0])
    with pytest.raises(BadInput, match="here is in use since this export began"):
        run(order(base, final, target), Events.in_memory()[0])


def test_folders_beside_the_target_stay(base: Path, tmp_path: Path) -> None:
    final, beside = trained("lora", base, tmp_path), [tmp_path / "here.partial", tmp_path / "here.trash"]
    for folder in beside:
        folder.mkdir()
        (folder / "mine").write_text("mine")
    run(order(base, final, tmp_path / "here"), Events.in_memory()[0])
    assert all((folder / "mine").read_text() == "mine" for folder in beside)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["final", "here", "here.partial", "here.trash"]
    assert stat.S_IMODE((tmp_path / "here").stat().st_mode) == stat.S_IMODE(beside[0].stat().st_mode)


def killed(base: Path, final: Path, target: Path) -> None:
    """An export in another process that is killed while it writes."""

    def killing(*given: Any) -> None:
        (given[-1] / "half.safetensors").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            stage.fill_with_adapter = killing  # type: ignore[assignment]
            run(order(base, final, target), Events.in_memory()[0])
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.skipif(os.name == "nt", reason="forks and kills by signal")
def test_what_a_killed_export_left_is_removed_by_the_next_one_to_its_folder(
    base: Path, tmp_path: Path
) -> None:
    final, target = trained("lora", base, tmp_path), tmp_path / "here"
    killed(base, final, target)
    killed(base, final, tmp_path / "elsewhere")
    (abandoned,) = (path.parent.parent for path in tmp_path.glob(".exporting-*/here/half.safetensors"))
    (other,) = (path.parent.parent for path in tmp_path.glob(".exporting-*/elsewhere/half.safetensors"))
    runs = create_work_folder(".exporting-", tmp_path)
    (runs.path / "here").mkdir()
    run(order(base, final, target), Events.in_memory()[0])
    assert not abandoned.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"final", "here", other.name, runs.path.name}
    runs.close()


def test_a_stop_ends_an_export_before_its_next_part(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, (events, heard) = trained("lora", base, tmp_path), Events.in_memory()
    logits = folders.logits

    def stopped(model: Any) -> Any:
        events.stop.request(terminated=False)
        return logits(model)

    monkeypatch.setattr(folders, "logits", stopped)
    with pytest.raises(Interrupted):
        run(order(base, final, tmp_path / "here", merge=True), events)
    assert "merge" not in [getattr(event.body, "name", None) for event in heard.events]
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_of_two_exports_to_one_folder_the_first_is_whole_and_the_second_refused(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, target = trained("lora", base, tmp_path), tmp_path / "here"
    fill = stage.fill_with_adapter

    def overtaken(*given: Any) -> float:
        monkeypatch.setattr(stage, "fill_with_adapter", fill)
        found = fill(*given)
        run(order(base, final, target), Events.in_memory()[0])
        return found

    monkeypatch.setattr(stage, "fill_with_adapter", overtaken)
    with pytest.raises(BadInput, match="here is in use since this export began"):
        run(order(base, final, target), Events.in_memory()[0])
    assert torch.equal(said(base, final), said(base, target))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["final", "here"]


def test_a_folder_without_an_adapter_is_named(base: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"adapter_config\.json"):
        run(order(base, tmp_path / "nowhere", tmp_path / "x"), Events.in_memory()[0])


def test_too_little_room_is_said_before_merging(base: Path, tmp_path: Path, monkeypatch) -> None:
    class Usage:
        free = 10

    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: Usage)
    final = trained("lora", base, tmp_path)
    with pytest.raises(Storage, match="10 bytes are free"):
        run(order(base, final, tmp_path / "merged", merge=True), Events.in_memory()[0])


def test_a_bare_checkpoint_gets_the_bases_tokenizer(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    for path in final.iterdir():
        if not path.name.startswith("adapter"):
            path.unlink()
    run(order(base, final, tmp_path / "copy"), Events.in_memory()[0])
    assert AutoTokenizer.from_pretrained(tmp_path / "copy").eos_token == "<end>"


DESCRIBING = ("chat_template.jinja", "generation_config.json")


@pytest.mark.parametrize(
    ("form", "refused"), [("merge", True), ("gguf", True), ("mlx", True), ("adapter", False)]
)
def test_a_base_that_was_replaced_since_the_training_is_refused(
    form: str, refused: bool, base: Path, tmp_path: Path
) -> None:
    final, other = trained("lora", base, tmp_path), tmp_path / "other"
    record = json.loads((final / "expert.json").read_text())
    digests = {name: it.as_json() for name, it in base_digests(base).items() if it is not None}
    record["base"]["files"] = digests
    (final / "expert.json").write_text(json.dumps(record))
    shutil.copytree(base, other)
    weights = other / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    options: dict[str, Any] = {"merge": True} if form == "merge" else {"form": form}
    plan = order(other, final, tmp_path / "out", **({} if form == "adapter" else options))
    if not refused:
        run(plan, Events.in_memory()[0])
        return
    with pytest.raises(
        BadInput, match=r"other/model\.safetensors is not the file that .* was trained"
    ) as why:
        run(plan, Events.in_memory()[0])
    assert f"--model, beside --from {final}" in str(why.value.hint)
    assert not (tmp_path / "out").exists()


def test_the_base_of_the_training_is_merged(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    record = json.loads((final / "expert.json").read_text())
    files = {name: it.as_json() for name, it in base_digests(base).items() if it is not None}
    # Of a second copy of the weights, as earlier versions recorded it.
    record["base"]["files"] = {**files, "consolidated.safetensors": files["model.safetensors"]}
    (final / "expert.json").write_text(json.dumps(record))
    run(order(base, final, tmp_path / "out", merge=True), Events.in_memory()[0])
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.parametrize("merge", [False, True])
def test_an_export_describes_itself_as_final_does(merge: bool, base: Path, tmp_path: Path) -> None:
    final, target = trained("lora", base, tmp_path), tmp_path / "out"
    run(order(base, final, target, merge=merge), Events.in_memory()[0])
    for name in DESCRIBING:
        assert (target / name).read_bytes() == (final / name).read_bytes()
    about = json.loads((target / "expert.json").read_text())
    weights = target / ("model.safetensors" if merge else "adapter_model.safetensors")
    assert about["files"][weights.name]["sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert set(about["files"]) == {p.name for p in target.iterdir()} - {"README.md", "expert.json"}
    source = (final / "adapter_model.safetensors").read_bytes()
    assert about["exported_from"]["sha256"] == hashlib.sha256(source).hexdigest()
    if not merge:
        named = json.loads((target / "adapter_config.json").read_text())["base_model_name_or_path"]
        assert named == "Org/Tiny", "not the path that the adapter was trained with"


def test_an_export_says_that_other_programs_do_not_apply_the_grammar(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    events, memory = Events.in_memory()
    run(order(base, final, tmp_path / "free"), events)
    replace_grammar(final, Grammar(kind="sql", name="sql", text="sql"))
    run(order(base, final, tmp_path / "constrained"), events)
    warned = [event.body for event in memory.events if event.body.type == "warning"]
    assert [one.code for one in warned] == ["grammar-not-applied"]
    assert "`sql`" in warned[0].message


@pytest.mark.parametrize("system_message", [None, 'Say "x" \\ ☃'])
def test_the_card_of_a_merged_model_loads_it_without_peft(
    system_message: str | None, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, target = trained("lora", base, tmp_path), tmp_path / "out"
    record = json.loads((final / "expert.json").read_text())
    (final / "expert.json").write_text(json.dumps({**record, "system_message": system_message}))
    run(order(base, final, target, merge=True), Events.in_memory()[0])
    card = (target / "README.md").read_text()
    matter = yaml.safe_load(card.split("---\n")[1])
    assert matter["library_name"] == "transformers" and matter["base_model_relation"] == "merge"
    assert "peft" not in card.partition("## Training")[0].lower() and "## Results" in card
    _, code, _ = card.replace("path/to/this/folder", "out").split("```")
    assert code.startswith("python\nfrom transformers import")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.removeprefix("python\n"), names)
    told = [] if system_message is None else [{"role": "system", "content": system_message}]
    assert names["messages"] == [*told, {"role": "user", "content": "Your question"}]
    assert names["answer"].shape[1] > names["inputs"]["input_ids"].shape[1]
    (final / "README.md").write_text("# by hand\n")
    run(order(base, final, tmp_path / "other", merge=True), Events.in_memory()[0])
    assert not (tmp_path / "other" / "README.md").exists()


@pytest.mark.parametrize("merge", [False, True])
def test_licences_travel_with_the_weights_they_are_of(merge: bool, base: Path, tmp_path: Path) -> None:
    own, target = tmp_path / "own", tmp_path / "out"
    shutil.copytree(base, own)
    (own / "LICENSE.md").write_text("the base's\n")
    (own / "README.md").write_text("---\nlicense: other\nlicense_name: acme-2\n---\n# Base\n")
    plan = order(own, trained("lora", own, tmp_path), target, merge=merge)
    expert = Path(plan.machine.paths.expert_dir)
    expert.mkdir(parents=True, exist_ok=True)
    (expert / "LICENSE").write_text("the expert's\n")
    run(plan, Events.in_memory()[0])
    assert (target / "LICENSE").read_text() == "the expert's\n"
    assert (target / "LICENSE.base").is_file() is merge
    note = "the base, whose licence is `acme-2` and is in `LICENSE.base`."
    assert (note in (target / "README.md").read_text()) is merge
    listed = json.loads((target / "expert.json").read_text())["files"]
    assert "LICENSE" in listed and ("LICENSE.base" in listed) is merge
    assert not merge or (target / "LICENSE.base").read_text() == "the base's\n"


def test_a_licence_that_is_a_link_is_left_out(base: Path, tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "secret"
    secret.write_text("key")
    shutil.copytree(base, own)
    (own / "LICENSE").symlink_to(secret)
    plan = order(own, trained("lora", own, tmp_path), tmp_path / "out", merge=True)
    expert = Path(plan.machine.paths.expert_dir)
    expert.mkdir(parents=True, exist_ok=True)
    (expert / "LICENSE").symlink_to(secret)
    run(plan, Events.in_memory()[0])
    assert not list((tmp_path / "out").glob("LICENSE*"))
    # The Hub's cache has links to its own files.
    snapshot = tmp_path / "models--a" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--a" / "blobs").mkdir()
    (tmp_path / "models--a" / "blobs" / "f00").write_text("the base's\n")
    (snapshot / "LICENSE").symlink_to("../../blobs/f00")
    copy_base_license(snapshot, tmp_path / "out")
    assert (tmp_path / "out" / "LICENSE.base").read_text() == "the base's\n"


@pytest.mark.parametrize("name", ["vocab.txt", "chat_template.jinja", "adapter_model.safetensors"])
def test_an_adapter_with_a_link_to_elsewhere_is_refused(name: str, base: Path, tmp_path: Path) -> None:
    """Somebody else may have made it, and the export may be uploaded."""
    final = trained("lora", base, tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes((final / name).read_bytes() if (final / name).is_file() else b"key")
    (final / name).unlink(missing_ok=True)
    (final / name).symlink_to(secret)
    with pytest.raises(BadInput, match=f"{name} is a symbolic link"):
        run(order(base, final, tmp_path / "out"), Events.in_memory()[0])
    assert not (tmp_path / "out").exists()


def test_an_adapter_in_the_hubs_cache_is_exported(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    blobs, snapshot = tmp_path / "models--a" / "blobs", tmp_path / "models--a" / "snapshots" / "1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for path in final.iterdir():
        (blobs / path.name).write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(Path("../../blobs") / path.name)
    run(order(base, snapshot, tmp_path / "out"), Events.in_memory()[0])
    kept = (tmp_path / "out" / "adapter_model.safetensors").read_bytes()
    assert kept == (final / "adapter_model.safetensors").read_bytes()


def test_a_checkpoint_is_described_by_its_manifest(base: Path, tmp_path: Path) -> None:
    final = trained("lora", base, tmp_path)
    wanted = {name: (final / name).read_bytes() for name in DESCRIBING}
    for path in final.iterdir():
        if not path.name.startswith("adapter"):
            path.unlink()
    # As a version before this one wrote it: the template of the base's tokenizer.
    (final / "chat_template.jinja").write_text("{{ messages }}")
    run(order(base, final, tmp_path / "copy"), Events.in_memory()[0])
    assert {name: (tmp_path / "copy" / name).read_bytes() for name in DESCRIBING} == wanted
