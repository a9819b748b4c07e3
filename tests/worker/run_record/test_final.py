"""`final/` and run.json: loadable by plain peft, free of paths and hash order, complete."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from evaluate import tiny
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from plans import example_document, example_plan, example_record
from run_record.finals import final_of
from transformers import LlamaConfig, LlamaForCausalLM

from expert_worker import results
from expert_worker.checkpoint import files
from expert_worker.errors import Storage
from expert_worker.evaluate.scored_rows import ScoredRows, replaced_rows
from expert_worker.evaluate.stage import _leave as leave_scores
from expert_worker.events import Events
from expert_worker.plan import Plan, recipe_document
from expert_worker.results import (
    BestChoice,
    EvaluationResult,
    PromptChoice,
    RunRecord,
    Score,
    SplitStatistics,
    TrainResult,
)
from expert_worker.run_record import (
    Outcome,
    adapter_config,
    adapter_tensors,
    write_final,
    write_run_record,
)
from expert_worker.run_record.card import add_scores, model_card
from expert_worker.run_record.digests import base_digests, data_digests, digest_of
from expert_worker.run_record.expert import add_score, has_other_scores
from expert_worker.run_record.final import tokenizer_files
from expert_worker.run_record.git import commit_of
from expert_worker.run_record.inference import GENERATION

SETTINGS = b'{"max_new_tokens": 9}'
OUTCOME = Outcome(
    steps=1234,
    tokens=1_000_000,
    supervised_tokens=400_000,
    train_loss=1.23456789,
    eval_loss=1.5,
    best_step=1000,
    held_out=SplitStatistics(
        rows=2,
        documents=12,
        tokens=6_138,
        supervised_tokens=1_224,
        length_histogram=(),
        length_quantiles=(),
        bytes=1,
        sha256="",
    ),
    rows={"read": 50, "used": 48, "dropped_short": 2, "eos_added": 48, "bytes": 999, "dropped_mixture": 0},
)


RESULT = TrainResult(
    ok=True, steps=20, tokens=7, train_loss=float("inf"), eval_loss=1.5, best_checkpoint=None,
    adapter="final", seconds=1.0, tokens_per_second=7.0, peak_memory_bytes=8, resumed_from=None,
    slow_encoder=None,
)  # fmt: skip


class FakeTokenizer:
    def save_pretrained(self, folder: str) -> None:
        settings = {"name_or_path": "/home/me/cache", "eos_token": "<end>", "vocab_file": "/x/vocab.json"}
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(settings))
        (Path(folder) / "tokenizer.json").write_text("{}")


def written(folder: Path, **changes: Any) -> Path:
    """A `final/` without a model."""
    given = {
        "config": {},
        "weights": {"w": torch.ones(2)},
        "tokenizer": FakeTokenizer(),
        "inference": {},
        "record": example_record(folder),
        "card": "# card\n",
    }
    return write_final(folder, **given | changes)


def tiny_base() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    return LlamaForCausalLM(config).eval()


ADAPTERS = {
    "lora": LoraConfig(r=4, target_modules=["v_proj", "q_proj"], task_type="CAUSAL_LM"),
    "dora": LoraConfig(r=4, target_modules=["o_proj"], use_dora=True, task_type="CAUSAL_LM"),
    "ia3": IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
    ),
    "prompt": PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
}


@pytest.mark.parametrize("kind", ADAPTERS)
def test_plain_peft_loads_it_and_says_the_same(kind: str, tmp_path: Path) -> None:
    model = get_peft_model(tiny_base(), ADAPTERS[kind]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.5)
    config = adapter_config(model.peft_config["default"], "tiny")
    final = written(tmp_path, config=config, weights=adapter_tensors(model))
    loaded = PeftModel.from_pretrained(tiny_base(), str(final)).eval()
    ids = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, loaded(ids).logits)


def test_module_lists_are_sorted_and_the_base_has_its_logical_name() -> None:
    names = [f"layer_{index}" for index in range(50)]
    config = LoraConfig(r=4, target_modules=names, base_model_name_or_path="/home/me/cache/base")
    document = adapter_config(config, "Org/Base")
    assert document["target_modules"] == sorted(names)
    assert document["base_model_name_or_path"] == "Org/Base"
    assert document["inference_mode"] is True
    assert document["peft_type"] == "LORA"
    assert "/home/me" not in json.dumps(document)


def test_writing_it_again_gives_the_same_bytes_and_no_path(tmp_path: Path) -> None:
    contents = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        final = written(tmp_path / folder, config={"b": 1, "a": 2}, record=example_record(tmp_path))
        contents.append({p.name: p.read_bytes() for p in final.iterdir()})
    assert contents[0] == contents[1]
    assert set(contents[0]) == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "expert.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert not any(str(tmp_path).encode() in content for content in contents[0].values())


def test_the_tokenizers_origin_is_left_out() -> None:
    settings = json.loads(tokenizer_files(FakeTokenizer())["tokenizer_config.json"])
    assert settings == {"eos_token": "<end>"}


def test_a_full_disk_under_the_tokenizers_files_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, folder: str) -> None:
        assert Path(folder).is_relative_to(tmp_path), (
            "beside the other files, on the disk that is chosen by -o"
        )
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr(FakeTokenizer, "save_pretrained", full)
    with pytest.raises(Storage, match=r"Cannot write final/ in .*: No space left on device") as said:
        written(tmp_path)
    assert "Free some space" in (said.value.hint or "")
    assert not (tmp_path / "final").exists()


def test_a_second_final_replaces_the_first_whole(tmp_path: Path) -> None:
    for step in (1.0, 2.0):
        written(tmp_path, weights={"w": torch.tensor([step])})
    assert [p.name for p in tmp_path.iterdir()] == ["final"]


SCORED: dict[str, Any] = {"adapter": {"accuracy": 0.5}}


@pytest.mark.parametrize(
    ("document", "stay"),
    [
        (SCORED, False),
        ({"adapter": None}, True),
        (SCORED | {"other_adapter": "checkpoint-2"}, True),
        (None, False),
    ],
    ids=["of the adapter", "of the base", "of another adapter", "unreadable"],
)
def test_other_weights_take_the_scores_of_those_before_with_them(
    tmp_path: Path, document: dict[str, Any] | None, stay: bool
) -> None:
    scores = [tmp_path / "evaluation.json", tmp_path / "answers.jsonl"]
    written(tmp_path)
    for path in scores:
        path.write_text(json.dumps(document) if document else "{")
    written(tmp_path, card="# the same weights\n")
    assert all(path.exists() for path in scores)
    written(tmp_path, weights={"w": torch.zeros(2)})
    assert [path.exists() for path in scores] == [stay, stay]


@pytest.mark.parametrize("at", ["publish_folder", "sha256"])
def test_no_crash_leaves_an_adapter_with_the_scores_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    weights = (written(tmp_path) / "adapter_model.safetensors").read_bytes()
    (tmp_path / "evaluation.json").write_text(json.dumps(SCORED))

    def crash(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(files, at, crash)
    with pytest.raises(MemoryError):
        written(tmp_path, weights={"w": torch.zeros(2)})
    assert (tmp_path / "final" / "adapter_model.safetensors").read_bytes() == weights
    # Either is true: the adapter is the one before.
    assert (tmp_path / "evaluation.json").exists() == (at == "sha256")


def test_the_card_says_what_it_is(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"recipe.base.name": "Org/Base", "recipe.adapter.kind": "dora"})
    card = model_card(plan.recipe, OUTCOME, plan.recipe_digest)
    for part in (
        'base_model: "Org/Base"',
        "# expert-sample",
        "DoRA adapter for",
        "| Training loss | 1.23457 |",
    ):
        assert part in card
    for part in (
        "1,234",
        "| Taken from step | 1,000 |",
        "| Rows used | 48 |",
        "| Dropped, too few characters | 2 |",
        "| Validation documents | 12, with 6,138 tokens, 1,224 of them scored |",
        "Not scored yet.",
    ):
        assert part in card
    assert not any(part in card for part in ("eos", "bytes", "999", "mixture", "A DoRA"))
    assert str(tmp_path) not in card
    assert card == model_card(plan.recipe, OUTCOME, plan.recipe_digest)


@pytest.mark.parametrize("system_message", [None, 'Say "x" \\ ☃'])
@pytest.mark.parametrize(("name", "on_the_hub"), [("Org/Base", True), ("my-base", False)])
def test_the_cards_code_runs(
    name: str, on_the_hub: bool, system_message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that has the base where the code looks for it; a Hub id is looked up here first."""
    plan = example_plan(tmp_path, {"recipe.base.name": name, "recipe.decoding.stop_sequences": ["q"]})
    model = get_peft_model(tiny.model(), ADAPTERS["lora"])
    recipe = plan.recipe
    card = model_card(recipe, OUTCOME, plan.recipe_digest, system_message=system_message)
    final = final_of(model, tiny.tokenizer(), recipe, tmp_path, base=name, card=card)
    tiny.model().save_pretrained(tmp_path / (name if on_the_hub else f"path/to/{name}"))
    _, code, _ = (final / "README.md").read_text().replace("path/to/this/folder", "final").split("```")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code.removeprefix("python\n"), names)
    assert isinstance(names["model"], PeftModel) and names["tokenizer"].eos_token == "<end>"  # type: ignore[attr-defined]
    told = [] if system_message is None else [{"role": "system", "content": system_message}]
    assert names["messages"] == [*told, {"role": "user", "content": "Your question"}]
    assert names["answer"].shape[1] > names["inputs"]["input_ids"].shape[1]  # type: ignore[attr-defined,index]


def test_the_embedded_base_is_named_as_the_hub_has_it(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"recipe.base.name": "smollm2-135m-instruct"})
    card = model_card(plan.recipe, OUTCOME, plan.recipe_digest)
    assert 'from_pretrained("HuggingFaceTB/SmolLM2-135M-Instruct")' in card
    assert "`bases/smollm2-135m-instruct`" in card
    config = adapter_config(LoraConfig(r=4, target_modules=["q_proj"]), plan.recipe.base.name)
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_scores_go_into_the_card_and_replace_earlier_ones(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    card = tmp_path / "README.md"
    card.write_text(model_card(plan.recipe, OUTCOME, plan.recipe_digest) + "\nA note by hand.\n")
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    for right in (20, 24):
        share = right / 40
        tuned = Score(correct=right, total=40, accuracy=share, low=share - 0.15, high=share + 0.14, loss=0.5)
        add_scores(tmp_path, scored(base, tuned))
    text = card.read_text()
    assert "40 test rows, scored by `json`:" in text and "| base | 10.0% | 4.0% to 23.1% |" in text
    assert "| adapter | 60.0% | 45.0% to 74.0% |" in text and "50.0%" not in text
    assert "Not scored yet" not in text and text.endswith("A note by hand.\n")
    card.write_text("my own card\n")
    add_scores(tmp_path, scored(base, base))
    assert card.read_text() == "my own card\n"


def run_with_card(folder: Path, grammar: dict[str, str]) -> tuple[Plan, Path]:
    """A plan with the grammar, and the `final/` of its run, which has nothing but a card yet."""
    plan = example_plan(folder, {"recipe.decoding.grammar": grammar})
    final = Path(plan.machine.paths.output) / "final"
    final.mkdir(parents=True)
    (final.parent / "plan.json").write_text("{}")
    (final / "README.md").write_text(model_card(plan.recipe, OUTCOME, plan.recipe_digest))
    return plan, final


def test_the_card_names_the_length_of_scored_answers_where_it_is_another_one(tmp_path: Path) -> None:
    plan, final = run_with_card(tmp_path, None)
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = base.model_copy(update={"path": str(final)})
    rows, events = ScoredRows([{}] * 40, {}, {"": 40}), Events.in_memory("evaluate")[0]
    usual = plan.recipe.decoding.max_new_tokens
    for length, is_named in ((usual + 1000, True), (usual, False), (None, False)):
        evaluation = plan.recipe.evaluation.model_copy(update={"max_new_tokens": length})
        recipe = plan.recipe.model_copy(update={"evaluation": evaluation})
        changed = plan.model_copy(update={"recipe": recipe})
        leave_scores(changed, scored(base, tuned), {}, rows, SETTINGS, events)
        card = (final / "README.md").read_text()
        assert "| adapter | 10.0%" in card
        assert (f"The scored answers had up to {usual + 1000:,} tokens" in card) is is_named


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "sql",
            "The grammar `sql` constrains every answer of expert-cli's `evaluate`, `generate` and `serve`. ",
        ),
        ("sql", "Other programs do not apply it, and may score lower."),
        ("gbnf", "Other programs do not apply it unless they are given the file `grammar.gbnf`, and may"),
    ],
)
def test_the_card_says_that_a_grammar_constrained_the_scored_answers(
    tmp_path: Path, kind: str, said: str
) -> None:
    grammar = {"kind": kind, "name": "a", "text": 'root ::= "yes"'}
    plan, final = run_with_card(tmp_path, grammar)
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = base.model_copy(update={"path": str(final)})
    rows, events = ScoredRows([{}] * 40, {}, {"": 40}), Events.in_memory("evaluate")[0]
    leave_scores(plan, scored(base, tuned), {}, rows, SETTINGS, events)
    assert said in (final / "README.md").read_text()
    decoding = plan.recipe.decoding.model_copy(update={"grammar": None})
    free = plan.model_copy(update={"recipe": plan.recipe.model_copy(update={"decoding": decoding})})
    leave_scores(free, scored(base, tuned), {}, rows, SETTINGS, events)
    card = (final / "README.md").read_text()
    assert "| adapter | 10.0%" in card and "grammar" not in card


def test_the_card_names_the_licence_as_the_hub_does(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    card = model_card(plan.recipe, OUTCOME, plan.recipe_digest, "Apache-2.0")
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "apache-2.0"
    assert "license" not in model_card(plan.recipe, OUTCOME, plan.recipe_digest)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("MIT", "mit"), ("GPL-3.0-only", "gpl-3.0"), ("AGPL-3.0-or-later", "agpl-3.0"),
        ("GPL-2.0+", "gpl-2.0"), ("CC-BY-NC-SA-4.0", "cc-by-nc-sa-4.0"), ("GFDL-1.3-or-later", "gfdl"),
        ("ODbL-1.0", "odbl"), ("LicenseRef-Acme Internal", None), ("MIT OR Apache-2.0", None),
        ("LGPL-2.0-only", None), ('a"\nb: c', None),
    ],
)  # fmt: skip
def test_a_licence_that_the_hub_does_not_know_is_another_one_with_its_name(
    name: str, known: str | None, tmp_path: Path
) -> None:
    plan = example_plan(tmp_path)
    matter = yaml.safe_load(model_card(plan.recipe, OUTCOME, plan.recipe_digest, name).split("---\n")[1])
    assert matter["license"] == (known or "other") and "b" not in matter
    named = {"LicenseRef-Acme Internal": "licenseref-acme-internal", "MIT OR Apache-2.0": "mit-or-apache-2.0"}
    assert matter.get("license_name") == named.get(name, matter.get("license_name"))
    assert ("license_name" in matter) is (known is None)


def test_a_score_goes_into_expert_json_and_leaves_the_rest(tmp_path: Path) -> None:
    final = written(tmp_path)
    before = json.loads((final / "expert.json").read_text())
    assert before["score"] is None and "expert.json" not in before["files"]
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    add_score(final, scored(base, base.model_copy(update={"accuracy": 0.6})))
    after = json.loads((final / "expert.json").read_text())
    score = after["score"]
    assert score["rows"] == 40 and score["base"]["low"] == 0.04 and score["adapter"]["accuracy"] == 0.6
    assert {**after, "score": None} == before and "base_examples" not in score
    asked = base.model_copy(update={"prompt": PromptChoice(shots=3, tried={})})
    add_score(final, scored(asked, base))
    assert json.loads((final / "expert.json").read_text())["score"]["base_examples"] == 3
    for text in ("not json", '{"format": 2}', "[]"):
        (final / "expert.json").write_text(text)
        add_score(final, scored(base, base))
        assert (final / "expert.json").read_text() == text


def test_each_test_set_has_its_score_in_the_card_and_in_expert_json(tmp_path: Path) -> None:
    final = written(tmp_path, card=model_card(example_plan(tmp_path).recipe, OUTCOME, "0" * 64))
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = Score(correct=1, total=8, accuracy=0.125, low=0.02, high=0.47, loss=0.5)
    people = results.TestScores(rows=8, base=base, adapter=tuned, by_level=(), by_tag=(), measure="accuracy")
    result = scored(base, base).model_copy(update={"test_sets": {"people": people}})
    add_scores(final, result)
    add_score(final, result)
    card = (final / "README.md").read_text()
    first, second = card.split("rows of the further test set `people`, scored by `json`:")
    assert "40 test rows" in first and "| adapter | 12.5% | 2.0% to 47.0% |" in second
    score = json.loads((final / "expert.json").read_text())["score"]
    share = {"correct": 1, "total": 8, "accuracy": 0.125, "low": 0.02, "high": 0.47}
    assert score["rows"] == 40 and score["test_sets"]["people"]["adapter"] == share


def test_an_evaluation_of_the_runs_adapter_reaches_its_card(tmp_path: Path) -> None:
    grammar = {"kind": "gbnf", "name": "rules/yes.gbnf", "text": 'root ::= "yes"'}
    plan, final = run_with_card(tmp_path, grammar)
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    rows = ScoredRows([{}] * 40, {}, {"": 400})
    for adapter, reached in ((tmp_path / "another", False), (final, True)):
        tuned = base.model_copy(update={"path": str(adapter)})
        leave_scores(plan, scored(base, tuned), {}, rows, SETTINGS, Events.in_memory("evaluate")[0])
        assert (final / "grammar.gbnf").is_file() is reached
        assert ("| adapter | 10.0%" in (final / "README.md").read_text()) is reached
    assert "40 of 400 test rows, scored by" in (final / "README.md").read_text()


@pytest.mark.parametrize(
    ("other", "whole", "note"),
    [
        ("file", 40, "final/ keeps its scores: these are of rows of another file"),
        ("few", 400, "final/ keeps its scores: these are of fewer rows"),
        (
            "settings",
            40,
            "final/ keeps its scores: these are with other settings (of the manifest, --set or --rows) than "
            "those of its scores",
        ),
        ("few", 40, None),
        (None, 400, None),
    ],
)
def test_scores_of_other_rows_do_not_reach_the_adapter(
    tmp_path: Path, other: str | None, whole: int, note: str | None
) -> None:
    final = written(tmp_path, card=model_card(example_plan(tmp_path).recipe, OUTCOME, "0" * 64))
    (final.parent / "plan.json").write_text("{}")
    changes: dict[str, Any] = {"machine.paths.output": str(final.parent)}
    asked = {"stage": "evaluate", "adapter": str(final), "other_rows": other}
    plan = example_plan(tmp_path, {**changes, "request": asked})
    before = {path.name: path.read_bytes() for path in final.iterdir() if path.is_file()}
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = base.model_copy(update={"path": str(final)})
    events, memory = Events.in_memory("evaluate")
    leave_scores(plan, scored(base, tuned), {}, ScoredRows([{}] * 40, {}, {"": whole}), SETTINGS, events)
    after = {path.name: path.read_bytes() for path in final.iterdir() if path.is_file()}
    assert (after == before) is (note is not None)
    said = [event.body.note for event in memory.events if event.body.type == "applied"]
    assert said == [note] * (note is not None)
    assert (final.parent / "evaluation.json").is_file()


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"recipe.evaluation.scorer": "contains"}, False),
        ({"recipe.decoding.temperature": 0.5}, False),
        ({"recipe.data.test": [{"name": "x", "format": "jsonl", "weight": 1.0, "task": None}]}, False),
        ({"recipe.data.field_mapping": {"completion": "answer"}}, False),
        ({"recipe.data.text_dialogue": "raw"}, False),
        ({"recipe.template.kind": "alpaca"}, False),
        ({"recipe.template.kwargs": {"enable_thinking": False}}, False),
        ({"recipe.base.quantization": "int4"}, False),
        ({"recipe.base.rope_scaling": {"kind": "linear", "factor": 2.0}}, False),
        ({"recipe.data.train": []}, True),
        ({"test_sets": {"more": {"sources": [], "files": {}}}}, False),
    ],
)
def test_settings_of_scores_that_the_run_was_trained_with_are_its_own(
    tmp_path: Path, changes: dict[str, Any], is_same: bool
) -> None:
    output = {"machine.paths.output": str(tmp_path)}
    (tmp_path / "plan.json").write_text(json.dumps(example_document(tmp_path, output)))
    asked = {"stage": "evaluate", "adapter": None, "other_rows": "settings"}
    plan = example_plan(tmp_path, {**output, **changes, "request": asked})
    assert replaced_rows(plan, ScoredRows([], {})) == (None if is_same else "settings")


@pytest.mark.parametrize(
    ("final", "decoding"),
    [
        ({"score": {"scorer": "contains"}}, {}),
        ({"score": {"scorer": "json", "test_sets": {"people": {}}}}, {}),
        ({"score": {"scorer": "json"}, "grammar": {"name": "sql", "sha256": "0" * 64}}, {}),
        ({"score": {"scorer": "json"}}, {"temperature": 0.5}),
    ],
)
def test_settings_of_the_training_do_not_replace_later_ones_of_the_manifest(
    tmp_path: Path, final: dict[str, Any], decoding: dict[str, Any]
) -> None:
    output = {"machine.paths.output": str(tmp_path), "recipe.evaluation.scorer": "json"}
    (tmp_path / "plan.json").write_text(json.dumps(example_document(tmp_path, output)))
    asked = {"stage": "evaluate", "adapter": None, "other_rows": "settings"}
    plan = example_plan(tmp_path, {**output, "request": asked})
    now = recipe_document(plan.recipe)["decoding"]
    for named, settings, other in (({"score": {"scorer": "json"}}, {}, None), (final, decoding, "settings")):
        (tmp_path / "final").mkdir(exist_ok=True)
        (tmp_path / "final" / "expert.json").write_text(json.dumps(named))
        (tmp_path / "run.json").write_text(json.dumps({"recipe": {"decoding": {**now, **settings}}}))
        assert replaced_rows(plan, ScoredRows([], {})) == other


@pytest.mark.parametrize(
    ("scorer", "title"),
    [
        ({"scorer": None}, "exact"),
        (
            {
                "scorer": "python",
                "scorer_settings": {"kind": "python", "file": "score.py", "function": "points"},
            },
            "score.py:points",
        ),
        ({"scorer": "classification"}, "classification"),
    ],
)
def test_a_scorer_is_the_same_by_the_title_that_is_recorded(
    tmp_path: Path, scorer: dict[str, Any], title: str
) -> None:
    (tmp_path / "expert.json").write_text(json.dumps({"score": {"scorer": title}}))
    changes = {f"recipe.evaluation.{key}": value for key, value in scorer.items()}
    assert not has_other_scores(tmp_path, example_plan(tmp_path, changes))
    (tmp_path / "expert.json").write_text(json.dumps({"score": {"scorer": "score.py:other"}}))
    assert has_other_scores(tmp_path, example_plan(tmp_path, changes))


@pytest.mark.parametrize(
    ("trained_with", "note"),
    [
        ({"template": {"kind": "custom", "source": "{{ messages }}"}}, "chat template"),
        ({"template": {"kind": "tokenizer", "kwargs": {"enable_thinking": True}}}, "chat template"),
        ({"base": {"name": "b", "quantization": "int4"}}, "quantization"),
        ({"base": {"quantization": "none", "rope_scaling": {"factor": 2.0}}}, "rope_scaling"),
        # The grammar is replaced, and an older version may not have recorded a setting.
        ({"decoding": {"grammar": {"kind": "json", "name": "json", "text": ""}}, "template": None}, None),
    ],
)
def test_scores_with_other_settings_do_not_reach_the_adapter(
    tmp_path: Path, trained_with: dict[str, Any], note: str | None
) -> None:
    final = written(tmp_path, card=model_card(example_plan(tmp_path).recipe, OUTCOME, "0" * 64))
    (final.parent / "run.json").write_text(json.dumps({"recipe": trained_with}))
    asked = {"stage": "evaluate", "adapter": str(final), "other_rows": None}
    plan = example_plan(tmp_path, {"machine.paths.output": str(final.parent), "request": asked})
    before = {path.name: path.read_bytes() for path in final.iterdir() if path.is_file()}
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = base.model_copy(update={"path": str(final)})
    events, memory = Events.in_memory("evaluate")
    leave_scores(plan, scored(base, tuned), {}, ScoredRows([{}] * 40, {}, {"": 40}), SETTINGS, events)
    after = {path.name: path.read_bytes() for path in final.iterdir() if path.is_file()}
    assert (after == before) is (note is not None)
    said = [event.body.note for event in memory.events if event.body.type == "applied"]
    whole = f"final/ keeps its scores: these are with other settings than the run's: {note}"
    assert said == [whole] * (note is not None)


@pytest.mark.parametrize("by_score", [False, True])
def test_other_settings_of_answers_reach_the_adapter_unless_scores_chose_it(
    tmp_path: Path, by_score: bool
) -> None:
    best = {
        "metric": "accuracy" if by_score else "eval_loss",
        "greater_is_better": by_score,
        "patience": None,
    }
    final = written(tmp_path, card=model_card(example_plan(tmp_path).recipe, OUTCOME, "0" * 64))
    asked = {"stage": "evaluate", "adapter": str(final), "other_rows": None}
    paths = {"machine.paths.output": str(final.parent), "request": asked}
    plan = example_plan(tmp_path, {**paths, "recipe.evaluation.best": best})
    (final / GENERATION).write_bytes(b"before")
    other = {**recipe_document(plan.recipe)["decoding"], "max_new_tokens": 7, "temperature": 0.5}
    record = {"recipe": {"decoding": other, "seed": 1}, "final": {"a": {}}, "result": {"steps": 3}}
    (final.parent / "run.json").write_text(json.dumps(record))
    base = Score(correct=4, total=40, accuracy=0.1, low=0.04, high=0.231, loss=2.5)
    tuned = base.model_copy(update={"path": str(final)})
    events, memory = Events.in_memory("evaluate")
    leave_scores(plan, scored(base, tuned), {}, ScoredRows([{}] * 40, {}, {"": 40}), SETTINGS, events)
    said = [event.body.note for event in memory.events if event.body.type == "applied"]
    now = json.loads((final.parent / "run.json").read_text())
    if by_score:
        settings = "temperature, max_new_tokens"
        assert said == [f"final/ keeps its scores: these are with other settings than the run's: {settings}"]
        assert now == record and (final / GENERATION).read_bytes() == b"before"
        return
    assert said == [] and (final / GENERATION).read_bytes() == SETTINGS
    digest = digest_of(final / GENERATION).as_json()
    decoding = recipe_document(plan.recipe)["decoding"]
    changed = {"recipe": {"decoding": decoding, "seed": 1}, "final": {"a": {}, GENERATION: digest}}
    assert now == {**record, **changed}
    described = json.loads((final / "expert.json").read_text())
    assert described["files"][GENERATION] == digest and described["score"]["rows"] == 40


def scored(base: Score, adapter: Score) -> EvaluationResult:
    return EvaluationResult(
        expert="x", scorer="json", rows=40, base=base, adapter=adapter, by_level=(), by_tag=(), gains=(),
        failures=(), confinement=None, seconds=1.0,
    )  # fmt: skip


def test_run_json_names_everything_that_went_in(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    expert = Path(plan.machine.paths.expert_dir)
    (expert / "datasets").mkdir(parents=True)
    (expert / "datasets" / "train.jsonl").write_text("{}\n")
    base = tmp_path / "base"
    base.mkdir()
    blob = tmp_path / "blobs" / ("ab" * 32)
    blob.parent.mkdir()
    blob.write_bytes(b"weights")
    (base / "model.safetensors").symlink_to(blob)
    (base / "config.json").write_text("{}")
    final = Path(plan.machine.paths.output) / "final"
    final.mkdir(parents=True)
    (final / "adapter_model.safetensors").write_bytes(b"weights")
    (final / "README.md").write_text("people edit this")
    path = write_run_record(
        plan,
        inputs=plan.inputs,
        cache_key="c" * 64,
        data=data_digests(plan.machine.paths.data),
        base=base_digests(base),
        best=BestChoice(
            step=20,
            reason="lowest eval_loss",
            metric="eval_loss",
            value=1.5,
            evaluations={"10": 2.0, "20": 1.5},
        ),
        result=RESULT,
        applied={"tf32": True},
    )
    record = json.loads(path.read_text())
    assert record["recipe_digest"] == plan.recipe_digest and record["recipe"]["seed"] == 42
    assert record["best"]["reason"] == "lowest eval_loss"
    assert record["result"]["steps"] == 20 and record["result"]["train_loss"] is None
    assert record["best"]["evaluations"] == {"10": 2.0, "20": 1.5}
    assert set(record) == set(RunRecord.model_fields)
    assert record["recipe"] == recipe_document(plan.recipe), "without defaults that the plan leaves out"
    assert record["recipe"] != plan.recipe.model_dump(mode="json")
    assert record["packages"]["torch"] == torch.__version__
    assert record["base"]["model.safetensors"] == {"sha256": "ab" * 32, "bytes": 7}
    digest = hashlib.sha256(b"weights").hexdigest()
    assert record["final"] == {"adapter_model.safetensors": {"sha256": digest, "bytes": 7}}
    assert record["data"]["datasets/train.jsonl"]["bytes"] == 3
    assert record["data"]["datasets/validation.jsonl"] is None
    assert list(record) == sorted(record)


def test_the_commit_is_read_from_loose_and_packed_refs_and_worktrees(tmp_path: Path) -> None:
    repo = tmp_path / "repo"

    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, "-C", str(repo), *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    repo.mkdir()
    git("init", "-q")
    assert commit_of(repo) is None
    git("commit", "-q", "--allow-empty", "-m", "first")
    (repo / "deep" / "er").mkdir(parents=True)
    assert commit_of(repo / "deep" / "er") == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert commit_of(repo) == git("rev-parse", "HEAD")
    git("worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert commit_of(tmp_path / "tree") == git("rev-parse", "HEAD")
    git("checkout", "-q", "--detach")
    assert commit_of(repo) == git("rev-parse", "HEAD")
    assert commit_of(tmp_path) is None


@pytest.mark.parametrize(
    "name", ["owner/base", "a: b # c", "x\n- injected: true", '"quoted"', "[1]", "&a *b"]
)
def test_the_front_matter_is_yaml_whatever_the_base_is_called(tmp_path: Path, name: str) -> None:
    plan = example_plan(tmp_path, {"recipe.base.name": name})
    _, matter, _ = model_card(plan.recipe, OUTCOME, plan.recipe_digest).split("---\n", 2)
    read = yaml.safe_load(matter)
    assert read["base_model"] == name and f"base_model:adapter:{name}" in read["tags"]
