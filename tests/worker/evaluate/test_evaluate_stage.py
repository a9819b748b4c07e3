"""Base against adapter, end to end with a tiny model: numbers, tables, what is kept, what is refused."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from evaluate import tiny
from peft import LoraConfig, get_peft_model
from plans import changed, example_plan

from expert_worker.errors import BadInput, Failed, Interrupted, Missing, Storage
from expert_worker.evaluate import decode, examiner, rows_at_once
from expert_worker.evaluate.against import check as check_against
from expert_worker.evaluate.decode import answer_all
from expert_worker.evaluate.intervals import wilson
from expert_worker.evaluate.llm_judge import LlmJudge
from expert_worker.evaluate.prompts import PromptMaker, pick_examples
from expert_worker.evaluate.rows import rows_of
from expert_worker.evaluate.scored_rows import rows_beside, scored_rows
from expert_worker.evaluate.scorers import chosen_scorer
from expert_worker.evaluate.stage import evaluate, examine, score_checkpoint, without_examples
from expert_worker.evaluate.stage import run as evaluate_run
from expert_worker.evaluate.subject import Subject, checked_adapter, open_subject
from expert_worker.evaluate.verdict import Verdict, failed
from expert_worker.events import Events
from expert_worker.events.models import WarningLine
from expert_worker.generate.stage import run as generate_run
from expert_worker.plan import Grammar, parse_plan
from expert_worker.results import Answer, EvaluationResult, PromptChoice
from expert_worker.run_record.digests import base_digests
from expert_worker.schema_grammar import OF_PROMPT
from expert_worker.schema_grammar.rules import Rules

SPLITS = ("train", "validation", "test")
DECODING = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "stop_sequences": [],
    "max_new_tokens": 6,
}


def adapted(seed: int = 4) -> Any:
    """A tiny model whose adapter changes what it says."""
    model = get_peft_model(tiny.model(), LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(std=2.0, generator=tiny.torch.Generator().manual_seed(seed))
    return model.eval()


ROWS = [{"prompt": f"question {n}", "tags": ["odd" if n % 2 else "even"], "level": n % 3} for n in range(8)]


@pytest.fixture(scope="module")
def adapter_says(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The adapter's answers to ROWS."""
    folder = tmp_path_factory.mktemp("said")
    decoding = example_plan(folder, {"recipe.decoding": DECODING}).recipe.decoding
    maker = PromptMaker(tiny.tokenizer())
    asked = [maker.prompt({"messages": [{"role": "user", "content": row["prompt"]}]}) for row in ROWS]
    return [answer.text for answer in answer_all(adapted(), tiny.tokenizer(), asked, decoding)]


@pytest.fixture
def plan(tmp_path: Path, adapter_says: list[str]) -> Any:
    datasets = tmp_path / "expert-sample" / "datasets"
    datasets.mkdir(parents=True)
    source = {"name": "datasets/test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    made = example_plan(
        tmp_path,
        {
            "recipe.data.test": [source],
            "recipe.decoding": DECODING,
            "recipe.evaluation.scorer": "exact",
            "machine.paths.data": {
                f"datasets/{name}.jsonl": str(datasets / f"{name}.jsonl") for name in SPLITS
            },
        },
    )
    rows = [
        {**row, "completion": text if row["tags"] == ["even"] else "never said"}
        for row, text in zip(ROWS, adapter_says, strict=True)
    ]
    for name in SPLITS:
        (datasets / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def report(plan: Any, *, has_adapter: bool = True) -> tuple[dict[str, Any], list[Any]]:
    events, memory = Events.in_memory("evaluate")
    subject = Subject(adapted(), tiny.tokenizer(), None, has_adapter)
    found = examine(plan, events, scored_rows(plan), subject, "somewhere" if has_adapter else None)
    return found.as_json(), memory.events


def test_the_adapter_is_compared_with_its_base(plan: Any) -> None:
    found, said = report(plan)
    assert found["adapter"]["correct"] == 4
    assert found["base"]["correct"] < 4
    low, high = wilson(4, 8)
    assert (found["adapter"]["low"], found["adapter"]["high"]) == (low, high)
    applied = {event.body.key: event.body.value for event in said if event.body.type == "applied"}
    assert found["confinement"] == applied["evaluation.confinement"]
    lines = {line["name"]: line["adapter"]["accuracy"] for line in found["by_tag"]}
    assert lines == {"even": 1.0, "odd": 0.0}
    assert sum(line["adapter"]["total"] for line in found["by_level"]) == 8
    assert found["failures"][0]["expected"] == "never said"
    assert found["failures"][0]["base"]["text"] != found["failures"][0]["adapter"]["text"]
    assert all(one["adapter"]["correct"] and not one["base"]["correct"] for one in found["gains"])
    assert len(found["gains"]) == 4 - found["base"]["correct"]
    digest = sha256(Path(plan.machine.paths.data["datasets/test.jsonl"]).read_bytes()).hexdigest()
    assert found["test_set"] == [{"name": "datasets/test.jsonl", "sha256": digest}]
    measured = [event.body for event in said if event.body.type == "evaluated"]
    assert measured[0].metrics["adapter_accuracy"] == 0.5
    assert found["adapter"]["loss"] != found["base"]["loss"]


def test_scored_answers_may_have_another_limit_than_others(plan: Any) -> None:
    document = plan.model_dump(mode="json", by_alias=True)
    short = parse_plan(json.dumps(changed(document, {"recipe.evaluation.max_new_tokens": 1})))
    found, _ = report(short)
    assert short.recipe.decoding.max_new_tokens == 6
    assert found["adapter"]["correct"] == 0 and found["failures"][0]["adapter"]["cut"]


def test_a_test_set_that_is_edited_meanwhile_is_recorded_as_it_was_read(plan: Any) -> None:
    file = Path(plan.machine.paths.data["datasets/test.jsonl"])
    read = sha256(file.read_bytes()).hexdigest()
    events, rows = Events.in_memory("evaluate")[0], scored_rows(plan)
    file.write_text(lines(ROWS[:1]))
    found = examine(
        plan, events, rows, Subject(adapted(), tiny.tokenizer(), None, True), "somewhere"
    ).as_json()
    assert found["test_set"] == [{"name": "datasets/test.jsonl", "sha256": read}]


def test_without_the_base_the_adapter_is_scored_alone(plan: Any) -> None:
    whole, _ = report(plan)
    Path(plan.machine.paths.home).rename(Path(plan.machine.paths.home).with_name("scores-of-before"))
    document = plan.model_dump(mode="json", by_alias=True)
    alone = parse_plan(json.dumps(changed(document, {"recipe.evaluation.without_base": True})))
    found, said = report(alone)
    stages = {event.body.name for event in said if event.body.type == "stage"}
    assert "adapter answers" in stages and not any(stage.startswith("base") for stage in stages)
    assert (found["base"], found["comparison"], found["gains"]) == (None, None, [])
    assert found["adapter"] == whole["adapter"]
    assert {line["base"] for line in found["by_level"]} == {None}
    found, _ = report(alone, has_adapter=False)
    assert found["base"] and not found["adapter"], "without an adapter the base is scored"


def test_the_loss_is_of_prompts_without_examples_whatever_the_base_answers_to(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = report(plan)[0]["base"]["loss"]

    def shown(maker: Any, train: Any, *_: Any) -> Any:
        return maker.showing(train[:2]), PromptChoice(shots=2, tried={})

    monkeypatch.setattr(examiner, "choose_prompt", shown)
    home = Path(plan.machine.paths.home)
    home.rename(home.with_name("scores-of-before"))
    found, said = report(plan)
    assert found["base"]["loss"] == pytest.approx(loss, rel=1e-5)
    stages = [event.body.name for event in said if event.body.type == "stage"]
    assert "base loss" in stages, "its prompts are others than those of the answers"
    assert "adapter loss" not in stages, "it is measured while answers are generated"


def rows_of_test_set(plan: Any) -> list[Any]:
    data = plan.recipe.data
    return rows_of(data.test, data.field_mapping, plan.machine.paths.data)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What models were asked for, as the stages name it."""
    asked: list[str] = []
    generate = examiner.Examiner._generated

    def noted(self: Any, stages: Any, maker: Any, prompts: Any, rows: Any, detail: Any, **given: Any) -> Any:
        asked.append(f"{stages.answers}, {detail}" if detail else stages.answers)
        return generate(self, stages, maker, prompts, rows, detail, **given)

    monkeypatch.setattr(examiner.Examiner, "_generated", noted)
    return asked


def test_base_answers_are_kept_until_what_they_depend_on_changes(plan: Any, generated: list[str]) -> None:
    first, _ = report(plan)
    chosen = ["base answers, 0 examples", "base answers, 3 examples"]
    assert generated == [*chosen, "base answers", "adapter answers"]
    generated.clear()
    second, _ = report(plan)
    assert generated == ["adapter answers"]
    assert first["base"] == second["base"]
    generated.clear()
    path = Path(plan.machine.paths.data["datasets/test.jsonl"])
    path.write_text(path.read_text().replace("question 1", "question one"))
    report(plan)
    assert "base answers" in generated


def test_kept_answers_are_judged_by_the_scorer_of_now(
    plan: Any, generated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert report(plan)[0]["base"]["correct"] < 8
    generated.clear()

    def right(_: Any, rows: Any, written: Any, *__: Any) -> list[Answer]:
        return [Answer(text=answer.text, correct=True, reason="", score=1.0) for answer in written]

    # Its code has changed; its name and settings are as they were.
    monkeypatch.setattr(examiner.scores, "judge_answers", right)
    found, _ = report(plan)
    assert generated == ["adapter answers"]
    assert found["base"]["correct"] == 8


def test_a_stop_reads_no_further_prompts(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_at_once, "CPU_ROWS", 2)
    events, _ = Events.in_memory("evaluate")
    batches: list[int] = []
    write = decode.write

    def stopped(model: Any, tokenizer: Any, ids: Any, *given: Any, **named: Any) -> Any:
        batches.append(len(ids))
        events.stop.request(terminated=False)
        return write(model, tokenizer, ids, *given, **named)

    monkeypatch.setattr(decode, "write", stopped)
    subject = Subject(adapted(), tiny.tokenizer(), None, True)
    with pytest.raises(Interrupted):
        examine(plan, events, scored_rows(plan), subject, "somewhere")
    assert batches == [2]


def test_verdicts_of_a_model_are_kept_and_asked_for_once(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    settings = {"kind": "judge", "model": "m", "instructions": "Be strict."}
    document["recipe"]["evaluation"] |= {"scorer": "judge", "scorer_settings": settings}
    document["machine"]["judge"] = {
        "url": "http://127.0.0.1:1/v1",
        "key_variable": None,
        "timeout_seconds": 5,
        "concurrency": 1,
    }
    judged: list[int] = []

    def verdicts(_: Any, rows: Any, texts: Any) -> Iterator[Verdict]:
        judged.append(len(texts))
        yield from [Verdict(0.5, "half")] * len(texts)

    monkeypatch.setattr(LlmJudge, "verdicts", verdicts)
    first, _ = report(parse_plan(json.dumps(document)))
    # The test rows are the validation rows: of their answers only those with examples are others.
    assert judged == [8] * 3
    judged.clear()
    second, _ = report(parse_plan(json.dumps(document)))
    assert judged == [] and second["base"] == first["base"] and second["adapter"] == first["adapter"]
    document["recipe"]["evaluation"]["scorer_settings"]["instructions"] = "Be kind."
    report(parse_plan(json.dumps(document)))
    assert judged == [8] * 3

    prose = failed("the judge gave no score from 0 to 1: 'Well,'")
    some = [prose] * 3 + [Verdict(0.5, "half")] * 5
    monkeypatch.setattr(LlmJudge, "verdicts", lambda _, rows, *__: (it for it in some[: len(rows)]))
    document["recipe"]["evaluation"]["scorer_settings"]["instructions"] = "Reply in a sentence."
    _, said = report(parse_plan(json.dumps(document)))
    (warned,) = [event.body for event in said if getattr(event.body, "code", None) == "answers-not-scored"]
    assert warned.hint.startswith("m must reply with one JSON object")
    assert "evaluation.scorer.judge.instructions" in warned.hint
    monkeypatch.setattr(LlmJudge, "verdicts", verdicts)
    judged.clear()
    assert report(parse_plan(json.dumps(document)))[0]["base"]["accuracy"] == 0.5
    assert judged == [3] * 3, "answers without a score are judged again"

    def ends(_: Any, rows: Any, texts: Any) -> Iterator[Verdict]:
        yield from verdicts(_, rows, texts[:5])
        raise Failed("HTTP 429")

    def asked_after(failing: Any, instructions: str) -> list[int]:
        document["recipe"]["evaluation"]["scorer_settings"]["instructions"] = instructions
        judged.clear()
        monkeypatch.setattr(LlmJudge, "verdicts", failing)
        with pytest.raises(Failed, match="HTTP 429"):
            report(parse_plan(json.dumps(document)))
        monkeypatch.setattr(LlmJudge, "verdicts", verdicts)
        judged.clear()
        report(parse_plan(json.dumps(document)))
        return judged

    assert asked_after(ends, "Be quick.") == [3, 8, 8], "verdicts that came before a failure are kept"

    def ends_in_the_adapters(_: Any, rows: Any, texts: Any) -> Iterator[Verdict]:
        return (ends if len(judged) == 2 else verdicts)(_, rows, texts)

    assert asked_after(ends_in_the_adapters, "Be long.") == [3], "those on the adapter's answers too"

    def stopped(_: Any, rows: Any, texts: Any) -> Iterator[Verdict]:
        for place, verdict in enumerate(verdicts(_, rows, texts)):
            if place == 5:
                events.stop.request(terminated=False)
            yield verdict

    document["recipe"]["evaluation"]["scorer_settings"]["instructions"] = "Be fair."
    events, _ = Events.in_memory("evaluate")
    monkeypatch.setattr(LlmJudge, "verdicts", stopped)
    asked = parse_plan(json.dumps(document))
    with pytest.raises(Interrupted):
        examine(asked, events, scored_rows(asked), Subject(adapted(), tiny.tokenizer(), None, True), "x")
    monkeypatch.setattr(LlmJudge, "verdicts", verdicts)
    judged.clear()
    report(parse_plan(json.dumps(document)))
    assert judged == [2, 8, 8], "and those that came before a stop"


@pytest.mark.parametrize(("temperature", "is_kept"), [(0.0, True), (0.7, False)])
def test_answers_that_are_drawn_depend_on_the_seed(
    plan: Any, generated: list[str], temperature: float, is_kept: bool
) -> None:
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["recipe"]["decoding"]["temperature"] = temperature
    report(parse_plan(json.dumps(document)), has_adapter=False)
    generated.clear()
    document["recipe"]["seed"] += 1
    report(parse_plan(json.dumps(document)), has_adapter=False)
    assert (generated == []) == is_kept


def test_base_answers_depend_on_how_the_template_shows_tools(plan: Any, generated: list[str]) -> None:
    path = Path(plan.machine.paths.data["datasets/test.jsonl"])
    row = {"prompt": "question 0", "completion": "x"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    path.write_text(lines([row, {**row, "tools": tools}]))
    events, _ = Events.in_memory("evaluate")
    for shown in ("one", "two"):
        template = f"{{% if tools %}}{shown}{{% endif %}}{{{{ messages[-1].content }}}}"
        subject = Subject(adapted(), tiny.tokenizer(), template, has_adapter=False)
        generated.clear()
        examine(plan, events, scored_rows(plan), subject, None)
        assert "base answers" in generated


def own_scorer(plan: Any, source: str) -> Any:
    """The plan with its own scorer."""
    path = Path(plan.machine.paths.manifest).with_name("score.py")
    path.write_text(source)
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    settings = {"kind": "python", "file": "score.py", "function": "score"}
    document["recipe"]["evaluation"] |= {"scorer": "python", "scorer_settings": settings}
    document["machine"]["paths"]["scorer"] = str(path)
    return parse_plan(json.dumps(document))


def test_partial_credit_reaches_every_number(plan: Any) -> None:
    source = "def score(answer, expected, row): return (answer == expected) / 2 + row['level'] / 4"
    own = own_scorer(plan, source)
    found, _ = report(own)
    assert (found["scorer"], found["measure"]) == ("score.py:score", "mean score")
    assert found["scorer_sha256"] == sha256(source.encode()).hexdigest()
    levels = [0, 1, 2, 0, 1, 2, 0, 1]
    right = [place % 2 == 0 for place in range(8)]
    expected = sum(one / 2 + level / 4 for one, level in zip(right, levels, strict=True)) / 8
    assert found["adapter"]["accuracy"] == pytest.approx(expected)
    assert found["adapter"]["correct"] == 1, "row 2 alone has the full score"
    assert 0 < found["adapter"]["low"] < expected < found["adapter"]["high"] < 1
    gain = found["adapter"]["accuracy"] - found["base"]["accuracy"]
    assert found["comparison"]["difference"] == pytest.approx(gain)
    assert [one["adapter"]["score"] for one in found["failures"]] == [0.5, 0.25, 0, 0.75, 0.5, 0.5, 0.25]
    assert found["by_level"][0]["adapter"]["accuracy"] != found["by_level"][1]["adapter"]["accuracy"]

    other, _ = report(own_scorer(plan, source.replace("/ 4", "/ 8")))
    assert other["scorer_sha256"] != found["scorer_sha256"]
    assert other["base"]["accuracy"] != found["base"]["accuracy"], "the base is scored by the new function"


def test_a_classification_has_f1_and_a_confusion_matrix(plan: Any) -> None:
    labels = sorted({row["completion"] for row in scored_rows(plan).main})
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["recipe"]["evaluation"]["scorer"] = "classification"
    found, _ = report(parse_plan(json.dumps(document)))
    assert found["measure"] == "accuracy"
    assert found["adapter"]["correct"] == 4
    classes = found["classes"]
    assert classes["labels"] == labels
    assert [sum(line) for line in classes["adapter"]["confusion"]].count(4) == 1, "four rows are never said"
    by_label = {score["label"]: score["f1"] for score in classes["adapter"]["by_label"]}
    assert by_label["never said"] == 0
    assert sum(f1 > 0 for f1 in by_label.values()) == 4
    assert classes["adapter"]["macro_f1"] == pytest.approx(sum(by_label.values()) / len(by_label))
    assert classes["base"]["macro_f1"] < classes["adapter"]["macro_f1"]


def test_answers_that_the_function_fails_on_are_counted(plan: Any) -> None:
    source = "def score(answer, expected): return 1 if answer == expected else 1 / 0"
    found, said = report(own_scorer(plan, source))
    assert found["adapter"]["unscored"] == 4
    assert found["base"]["unscored"] == 8 - found["base"]["correct"]
    warned = [event.body for event in said if event.body.type == "warning"]
    assert [warning.code for warning in warned] == ["answers-not-scored"]
    assert f"failed on {4 + found['base']['unscored']} of 16 answers" in warned[0].message
    assert "score.py:1: ZeroDivisionError" in warned[0].message


def test_a_damaged_score_file_is_as_good_as_none(plan: Any) -> None:
    first, _ = report(plan, has_adapter=False)
    for path in Path(plan.machine.paths.home).glob("base-scores/*.json"):
        path.write_text('{"key": "another"')
    second, _ = report(plan, has_adapter=False)
    assert first["base"] == second["base"]
    assert second["adapter"] is None


def test_scores_are_not_kept_for_other_rules_of_a_grammar_of_the_same_name(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = Grammar(kind="sql", name="sql", text="sql")
    decoding = plan.recipe.decoding.model_copy(update={"grammar": grammar, "max_new_tokens": 4})
    plan = plan.model_copy(update={"recipe": plan.recipe.model_copy(update={"decoding": decoding})})

    def kept() -> int:
        report(plan, has_adapter=False)
        return len(list(Path(plan.machine.paths.home).glob("base-scores/*.json")))

    # Two prompts on validation rows, and the better one on test rows.
    assert [kept(), kept()] == [3, 3]
    other = Rules({"root": '"SELECT 1"'}, frozenset())
    known = OF_PROMPT["sql"]
    # Of one row, which is not the first.
    monkeypatch.setitem(
        cast("dict[str, Any]", OF_PROMPT),
        "sql",
        lambda prompt: other if "question 5" in prompt else known(prompt),
    )
    assert kept() == 6


def test_the_report_is_left_only_where_a_run_is(plan: Any) -> None:
    report(plan)
    output = Path(plan.machine.paths.output)
    assert not output.exists()
    output.mkdir()
    (output / "plan.json").write_text("{}")
    found, _ = report(plan)
    assert json.loads((output / "evaluation.json").read_text())["adapter"] == found["adapter"]


def test_scores_that_a_full_disk_does_not_take_are_in_the_message(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = report(plan)
    output = Path(plan.machine.paths.output)
    output.mkdir()
    (output / "plan.json").write_text("{}")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("expert_worker.evaluate.stage.files.replace_json", full)
    with pytest.raises(Storage, match="No space left on device") as caught:
        report(plan)
    assert caught.value.message.endswith(
        f"The scores were: base {found['base']['accuracy']:.1%} of {found['base']['total']} rows, "
        f"adapter {found['adapter']['accuracy']:.1%} of {found['adapter']['total']} rows."
    )
    assert not (output / "evaluation.json").exists()


def test_scores_of_other_rows_or_another_adapter_are_recorded_as_such(plan: Any) -> None:
    output = Path(plan.machine.paths.output)
    checkpoint, final = output / "checkpoint-50", output / "final"
    for folder in (checkpoint, final):
        folder.mkdir(parents=True)
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))

    def recorded(adapter: Path | None, size: int | None, other_rows: str | None) -> tuple[Any, Any]:
        given = {"other_rows": other_rows} if other_rows else {}
        path = str(adapter) if adapter else None
        document["request"] = {"stage": "evaluate", "adapter": path, **given}
        document["recipe"]["evaluation"]["test_set_size"] = size
        asked = parse_plan(json.dumps(document))
        subject = Subject(adapted(), tiny.tokenizer(), None, adapter is not None)
        events, _ = Events.in_memory("evaluate")
        found = examine(asked, events, scored_rows(asked), subject, path).as_json()
        return found.get("other_rows"), found.get("other_adapter")

    assert recorded(final, None, None) == (None, None)
    run = {"recipe": {"template": {"kind": "alpaca"}, "base": {"quantization": "none"}}}
    (output / "run.json").write_text(json.dumps(run))
    assert recorded(final, None, None) == ("settings", None), "the manifest has another template by now"
    assert recorded(checkpoint, None, None) == (None, "checkpoint-50")
    (output / "run.json").unlink()
    assert recorded(final, 8, "few") == (None, None), "the limit is as large as the set"
    assert recorded(final, 1, "few") == ("few", None)
    assert recorded(final, None, "file") == ("file", None)
    assert recorded(checkpoint, None, None) == (None, "checkpoint-50")
    assert recorded(None, 1, "few") == ("few", None)
    assert recorded(output.parent / "other-run" / "final", None, None) == (None, "other-run")


def test_every_answer_is_left_beside_the_scores(plan: Any) -> None:
    output = Path(plan.machine.paths.output)
    output.mkdir()
    (output / "plan.json").write_text("{}")
    long = {"prompt": "p" * 2000, "completion": "c" * 2000, "tags": ["long"], "level": 2}
    found, _ = report(with_people(plan, lines([long])))
    answers = [json.loads(line) for line in (output / "answers.jsonl").read_text().splitlines()]
    rows = [*scored_rows(plan).main]
    assert [(it["test_set"], it["expected"]) for it in answers] == [
        *(("test", row["completion"]) for row in rows),
        ("people", long["completion"]),
    ]
    assert sum(it["adapter"]["correct"] for it in answers[:-1]) == found["adapter"]["correct"] > 0
    assert sum(it["base"]["correct"] for it in answers[:-1]) == found["base"]["correct"]
    assert answers[-1]["messages"] == [{"role": "user", "content": long["prompt"]}]
    assert (answers[-1]["tags"], answers[-1]["level"]) == (["long"], 2)
    assert all(it[side]["text"] is not None for it in answers for side in ("base", "adapter"))
    assert "against" not in answers[0]
    report(plan)
    assert len((output / "answers.jsonl").read_text().splitlines()) == len(rows), (
        "those of the last evaluation"
    )


def test_a_checkpoint_is_scored_by_what_it_writes(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expert_worker.evaluate.stage.template_of", lambda template, tokenizer: None)
    rows, (events, emitted) = rows_of_test_set(plan), Events.in_memory()
    scorer = chosen_scorer(plan.recipe.evaluation, plan.recipe.data, plan.machine.paths)
    found = score_checkpoint(adapted(), tiny.tokenizer(), plan.recipe, scorer, rows, events)
    assert found["accuracy"] == 0.5
    # Answers may take minutes, and somebody is waiting.
    shown = [
        (body.stage, body.done) for body in (event.body for event in emitted.events) if body.type == "advance"
    ]
    assert ("adapter answers", len(rows)) in shown and ("adapter judged", len(rows)) in shown


def test_an_evaluation_continues_where_answers_do_not_fit_together(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is answered after that takes as few rows at once."""
    asked = sampling(plan, 3)
    expected, _ = report(asked)
    shutil.rmtree(Path(plan.machine.paths.home) / "base-scores")
    made = decode.write

    def tight(model: Any, tokenizer: Any, ids: Any, *rest: Any, **more: Any) -> Any:
        found = made(model, tokenizer, ids, *rest, **more)
        if len(ids) > 4:
            raise tiny.torch.OutOfMemoryError("CUDA out of memory")
        return found

    monkeypatch.setattr(decode, "write", tight)
    found, said = report(asked)
    for side in ("base", "adapter"):
        assert found[side].pop("loss") == pytest.approx(expected[side].pop("loss"), rel=1e-5)
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}
    recovered = [event.body.detail for event in said if event.body.type == "recovered"]
    assert recovered == ["8 rows at once did not fit into memory: the batch is repeated with 4"]


def test_nothing_to_score_is_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no test set"):
        scored_rows(example_plan(tmp_path))
    with pytest.raises(BadInput, match="no scorer named"):
        scored_rows(example_plan(tmp_path, {"recipe.evaluation.scorer": "magic"}))


def test_test_cases_stand_in_for_a_test_set(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"recipe.evaluation.test_cases": [{"prompt": "2+2", "expected": "4"}]})
    (row,) = scored_rows(plan).main
    assert row["completion"] == "4"


def test_test_cases_are_asked_with_the_system_message_of_training(tmp_path: Path) -> None:
    changes = {
        "recipe.evaluation.test_cases": [{"prompt": "2+2", "expected": "4"}],
        "recipe.data.train": [{"name": "t", "format": "jsonl", "weight": 1.0}],
        "machine.paths.data": {"t": str(tmp_path / "t.jsonl")},
        "request": {"stage": "evaluate", "adapter": str(tmp_path)},
    }
    asked = {"role": "user", "content": "2+2"}

    def messages() -> Any:
        (row,) = scored_rows(example_plan(tmp_path, changes)).main
        return row["messages"]

    assert messages() == [asked]
    (tmp_path / "expert.json").write_text(json.dumps({"format": 1, "system_message": "loud"}))
    assert messages() == [{"role": "system", "content": "loud"}, asked], "an installed expert has no rows"
    row = {"system": "shout", "prompt": "1+1", "completion": "2"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    assert messages() == [{"role": "system", "content": "loud"}, asked], "rows that changed since"
    changes["request"] = {"stage": "evaluate", "adapter": None}
    assert messages() == [{"role": "system", "content": "shout"}, asked]


def test_test_cases_are_asked_beside_the_test_set(plan: Any) -> None:
    cases = [{"prompt": "2+2", "expected": "4"}]
    document = plan.model_dump(mode="json", by_alias=True)
    document["recipe"]["evaluation"] |= {"test_cases": cases, "test_set_size": 3}
    both = parse_plan(json.dumps(document))
    found = scored_rows(both)
    assert [row.get("tags") for row in found.main][-1] == ["test-case"] and len(found.main) == 4
    assert found.whole == {"": 9} and found.is_part
    result, _ = report(both)
    (file,) = result["test_set"]
    rows = Path(both.machine.paths.data["datasets/test.jsonl"]).read_bytes()
    assert file == {"name": "datasets/test.jsonl", "sha256": sha256(rows).hexdigest()}
    lines = {line["name"]: line["adapter"]["total"] for line in result["by_tag"]}
    assert result["rows"] == 4 and lines["test-case"] == 1
    document["request"] = {"stage": "evaluate", "adapter": None, "other_rows": "file"}
    assert len(scored_rows(parse_plan(json.dumps(document))).main) == 3, "another file is scored alone"
    Path(plan.machine.paths.data["datasets/test.jsonl"]).write_text("\n")
    with pytest.raises(BadInput, match=r"The test set has no rows: datasets/test\.jsonl"):
        scored_rows(both)


def test_a_folder_without_an_adapter_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is not an adapter: it has no adapter_config\.json"):
        checked_adapter(str(tmp_path))
    assert checked_adapter(None) is None


@pytest.mark.parametrize(
    ("row", "question", "answer"),
    [
        ({"prompt": "p", "completion": "c"}, "p", "c"),
        ({"instruction": "i", "input": "x", "output": "o"}, "i\n\nx", "o"),
        ({"instruction": "i", "input": "", "response": "r"}, "i", "r"),
        ({"task": "t", "input": {"a": "x", "b": "y"}, "output": "o"}, "a:\nx\n\nb:\ny", "o"),
        ({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]}, "u", "a"),
    ],
)
def test_rows_of_every_shape_are_understood(
    plan: Any, row: dict[str, Any], question: str, answer: str
) -> None:
    Path(plan.machine.paths.data["datasets/test.jsonl"]).write_text(json.dumps(row) + "\n\n")
    (found,) = rows_of_test_set(plan)
    assert (found["messages"][-1]["content"], found["completion"]) == (question, answer)


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"prompt": "p"}', '{"messages": [{"role": "user", "content": "u"}]}']
)
def test_a_bad_row_is_named_with_its_line(plan: Any, line: str) -> None:
    Path(plan.machine.paths.data["datasets/test.jsonl"]).write_text(
        '{"prompt": "p", "completion": "c"}\n' + line
    )
    with pytest.raises(BadInput, match=r"test\.jsonl:2: "):
        rows_of_test_set(plan)


def test_a_field_mapping_leads_into_a_row(plan: Any) -> None:
    mapped = plan.model_copy(
        update={
            "recipe": plan.recipe.model_copy(
                update={
                    "data": plan.recipe.data.model_copy(
                        update={"field_mapping": {"prompt": "ask.q", "completion": "ask.a"}}
                    )
                }
            )
        }
    )
    Path(plan.machine.paths.data["datasets/test.jsonl"]).write_text('{"ask": {"q": "x", "a": "y"}}\n')
    (row,) = rows_of_test_set(mapped)
    assert row["completion"] == "y"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (rb'{"prompt": "q", "completion": "a", "tags": ["\ud800"]}', "test.jsonl:2: the field 'tags'"),
        (rb'{"prompt": "q \udfff", "completion": "a"}', "half of a surrogate pair"),
        (rb'{"prompt": "q", "completion": "a", "\ud800": 1}', "the field '\\\\ud800'"),
        (b'{"prompt": "q", "completion": "a", "tags": 5}', "tags must be a list"),
        (b'{"prompt": "\xff", "completion": "a"}', "test.jsonl:2: byte 13 of the row is not UTF-8"),
        (b'{"messages": [{"role": "assistant"}]}', 'message 1 has no "content"'),
        (b'{"messages": ["a"]}', "message 1 is text, not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": "q", "completion": "a", "x": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
        (b'{"prompt": "q", "completion": "a", "x": ' + b"[" * 90 + b"]" * 90 + b"}", None),
        (b'"' + b"x" * (17 << 20), "longer than 16 MiB"),
    ],
)
def test_a_row_that_cannot_be_written_is_refused_before_a_model_is_loaded(
    plan: Any, line: bytes, said: str | None
) -> None:
    path = Path(plan.machine.paths.data["datasets/test.jsonl"])
    path.write_bytes(b'{"prompt": "q", "completion": "a"}\n' + line + b"\n")
    if said is None:
        assert len(scored_rows(plan).main) == 2
        return
    with pytest.raises(BadInput, match=said):
        scored_rows(plan)


def test_every_broken_row_is_named_at_once_or_left_out_where_the_manifest_says_so(plan: Any) -> None:
    rows = [{"prompt": f"q{n}", "completion": "a"} for n in range(3)]
    path = Path(plan.machine.paths.data["datasets/test.jsonl"])
    path.write_text(lines(rows) + '{"prompt": "q"\n{"prompt": "a"\n{"ask": "q"}\n')
    with pytest.raises(BadInput) as caught:
        scored_rows(plan)
    said = caught.value.message.splitlines()
    assert said[0] == "3 rows are broken:" and len(said) == 3
    assert said[1].startswith("datasets/test.jsonl:4: not valid JSON: ") and "(2 rows: 4, 5)" in said[1]
    assert said[2].startswith("datasets/test.jsonl:6: ") and "text_field" in str(caught.value.hint)
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    skipping = parse_plan(json.dumps(changed(document, {"recipe.data.on_bad_row": "skip"})))
    events, shown = Events.in_memory("evaluate")
    assert [row["messages"][0]["content"] for row in scored_rows(skipping, events).main] == ["q0", "q1", "q2"]
    [warning] = [event.body for event in shown.events if isinstance(event.body, WarningLine)]
    assert warning.code == "bad-rows-skipped"
    assert warning.message.startswith("3 rows of the test set are left out:\ndatasets/test.jsonl:4: ")


def with_people(plan: Any, rows: str, **changes: Any) -> Any:
    """The plan with a further test set."""
    path = Path(plan.machine.paths.data["datasets/test.jsonl"]).with_name("people.jsonl")
    path.write_text(rows)
    source = {"name": "datasets/people.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["test_sets"] = {"people": {"sources": [source], "files": {source["name"]: str(path)}}}
    document["recipe"]["evaluation"] |= changes
    return parse_plan(json.dumps(document))


PEOPLE = [
    {"prompt": "question 0", "completion": "never said", "tags": ["people", "shop"], "level": 1},
    {"prompt": "question 4", "completion": "never said either", "tags": ["people", "music"], "level": 1},
    {"prompt": "question 6", "completion": "nor this", "tags": ["people", "music"], "level": 2},
]


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_number_of_examples_is_that_which_was_shown(plan: Any, generated: list[str], count: int) -> None:
    path = Path(plan.machine.paths.data["datasets/train.jsonl"])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))
    shown = min(count, 3)
    found, _ = report(plan, has_adapter=False)
    assert generated[:2] == ["base answers, 0 examples", f"base answers, {shown} examples"]
    assert list(found["base"]["prompt"]["tried"]) == ["0", str(shown)]
    assert found["base"]["prompt"]["shots"] in (0, shown)


def test_without_validation_rows_the_base_is_asked_without_examples_and_it_is_said(plan: Any) -> None:
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["recipe"]["data"] |= {"validation": [], "validation_split": 0.2}
    found, said = report(parse_plan(json.dumps(document)))
    assert found["base"]["prompt"] == {"shots": 0, "tried": {}}
    (note,) = [
        it.body.note for it in said if it.body.type == "applied" and it.body.key == "evaluation.prompt"
    ]
    assert note == "Asked without examples: there are no validation rows to choose a prompt by"


@pytest.mark.parametrize("absent", [("train", "validation"), ("train",), ("validation",)])
@pytest.mark.parametrize("where", ["named", "installed", "trained here"])
def test_training_and_validation_rows_may_be_absent_beside_an_installed_expert_or_rows_that_are_named(
    plan: Any, where: str, absent: tuple[str, ...]
) -> None:
    for name in absent:
        Path(plan.machine.paths.data[f"datasets/{name}.jsonl"]).unlink()
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    if where == "named":
        document["request"] = {"stage": "evaluate", "adapter": "somewhere", "other_rows": "file"}
    elif where == "installed":
        (Path(plan.machine.paths.expert_dir) / "expert.json").write_text("{}")
    asked = parse_plan(json.dumps(document))
    if where == "trained here":
        with pytest.raises(BadInput, match="is not there") as why:
            report(asked)
        assert why.value.code == "data-missing"
        return
    found, said = report(asked)
    assert found["base"]["prompt"] == {"shots": 0, "tried": {}} and found["adapter"]["correct"] == 4
    (note,) = [
        it.body.note for it in said if it.body.type == "applied" and it.body.key == "evaluation.prompt"
    ]
    assert note.startswith("Asked without examples: there are no ")
    assert ("validation" in note) == ("validation" in absent)


def test_a_further_test_set_has_separate_scores(plan: Any, generated: list[str]) -> None:
    alone, _ = report(plan)
    assert "test_sets" not in alone
    output = Path(plan.machine.paths.output)
    output.mkdir()
    (output / "plan.json").write_text("{}")
    (row,) = [row for row in scored_rows(plan).main if row["prompt"] == "question 2"]
    right = {"prompt": "question 2", "completion": row["completion"], "tags": ["people"], "level": 1}
    content = lines([*PEOPLE, right])
    both = with_people(plan, content)
    generated.clear()
    found, said = report(both)
    assert generated == ["adapter answers", "base answers, people", "adapter answers, people"], (
        "the base's prompt is chosen once"
    )
    people = found.pop("test_sets")["people"]
    assert {**found, "seconds": 0, "confinement": 0} == {**alone, "seconds": 0, "confinement": 0}
    assert (people["rows"], people["adapter"]["correct"], people["adapter"]["accuracy"]) == (4, 1, 0.25)
    assert (people["adapter"]["low"], people["adapter"]["high"]) == wilson(1, 4)
    assert people["base"]["prompt"]["shots"] == found["base"]["prompt"]["shots"]
    assert people["comparison"]["better"] == 1 - people["base"]["correct"]
    tags = {line["name"]: line["adapter"]["total"] for line in people["by_tag"]}
    assert tags == {"people": 4, "music": 2, "shop": 1}
    assert [(line["name"], line["adapter"]["correct"]) for line in people["by_level"]] == [("1", 1), ("2", 0)]
    assert [one["expected"] for one in people["failures"]] == [row["completion"] for row in PEOPLE]
    digest = sha256(content.encode()).hexdigest()
    assert people["test_set"] == [{"name": "datasets/people.jsonl", "sha256": digest}]
    (measured,) = [event.body.metrics for event in said if event.body.type == "evaluated"]
    assert (measured["adapter_accuracy"], measured["people/adapter_accuracy"]) == (0.5, 0.25)

    left = json.loads((output / "evaluation.json").read_text())
    assert left["test_sets"]["people"] == people
    told = without_examples(EvaluationResult.model_validate_json(json.dumps(left))).as_json()
    assert "failures" not in told["test_sets"]["people"] and told["test_sets"]["people"]["rows"] == 4


def sampling(plan: Any, per_row: int = 4) -> Any:
    """The plan of `evaluate --samples`."""
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    samples = {"per_row": per_row, "temperature": 0.2}
    document["request"] = {"stage": "evaluate", "adapter": "somewhere", "samples": samples}
    return parse_plan(json.dumps(document))


def test_samples_are_scored_besides_and_change_nothing_else(plan: Any) -> None:
    alone, _ = report(with_people(plan, lines(PEOPLE)))
    assert "samples" not in alone and "samples" not in alone["test_sets"]["people"]
    found, said = report(sampling(with_people(plan, lines(PEOPLE))))
    short = without_examples(EvaluationResult.model_validate_json(json.dumps(found))).as_json()
    assert short["samples"] == found["samples"]
    samples, people = found.pop("samples"), found["test_sets"]["people"].pop("samples")
    assert {**found, "seconds": 0, "confinement": 0} == {**alone, "seconds": 0, "confinement": 0}
    assert (samples["per_row"], samples["temperature"]) == (4, 0.2)
    means = [part["accuracy"] for part in samples["pass_at"]]
    assert [part["k"] for part in samples["pass_at"]] == [1, 2, 4] and means == sorted(means)
    assert 0 < means[-1] < 1 and samples["vote"]["total"] == 8
    tags = {line["name"]: line["pass_at"][-1]["accuracy"] for line in samples["by_tag"]}
    assert tags["even"] > 0 == tags["odd"], "the odd rows have references that nothing says"
    assert [line["name"] for line in people["by_tag"]] == ["people", "music", "shop"]
    stages = [event.body.name for event in said if event.body.type == "stage"]
    assert stages.count("sampled answers") == stages.count("samples judged") == 2
    again, _ = report(sampling(with_people(plan, lines(PEOPLE))))
    assert again["samples"] == samples


@pytest.mark.parametrize("has_adapter", [True, False])
def test_the_base_alone_is_sampled_with_the_prompt_that_was_chosen_for_it(
    plan: Any, has_adapter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def with_examples(maker: Any, train: Any, *_: Any) -> Any:
        return maker.showing(pick_examples(train, 3)), PromptChoice(shots=3, tried={})

    def answered(model: Any, tokenizer: Any, prompts: Any, *rest: Any, **more: Any) -> Any:
        asked.setdefault("scored", prompts)
        return answer_all(model, tokenizer, prompts, *rest, **more)

    def sampled(model: Any, tokenizer: Any, prompts: Any, *_: Any, **__: Any) -> Any:
        asked["sampled"] = prompts
        return [["x"]] * len(prompts)

    monkeypatch.setattr(examiner, "choose_prompt", with_examples)
    monkeypatch.setattr(examiner, "answer_all", answered)
    monkeypatch.setattr(examiner, "sample_all", sampled)
    report(sampling(plan, 1), has_adapter=has_adapter)
    assert (asked["sampled"] == asked["scored"]) is not has_adapter


def test_rows_that_choose_the_base_prompt_are_read_once(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noted(asked: Any, sources: Any, *rest: Any) -> Any:
        read.extend(source.name for source in sources)
        return rows_beside(asked, sources, *rest)

    monkeypatch.setattr(examiner, "rows_beside", noted)
    report(with_people(plan, lines(PEOPLE)))
    data = plan.recipe.data
    assert sorted(read) == sorted(source.name for source in (*data.train, *data.validation)) and read


def test_test_set_size_limits_each_test_set(plan: Any) -> None:
    rows = scored_rows(with_people(plan, lines(PEOPLE), test_set_size=2))
    assert [len(found) for _, found in rows.sets()] == [2, 2]
    rows = scored_rows(with_people(plan, lines(PEOPLE), test_set_size=5))
    assert [len(found) for _, found in rows.sets()] == [5, 3]


def test_more_rows_than_there_are_is_a_warning_of_a_command_that_asks_for_them(plan: Any) -> None:
    def warnings(other: str | None, size: int) -> list[str]:
        document = json.loads(with_people(plan, lines(PEOPLE), test_set_size=size).model_dump_json())
        document["request"] = {"stage": "evaluate", "adapter": None, "other_rows": other}
        events, said = Events.in_memory()
        scored_rows(parse_plan(json.dumps(document)), events)
        found = [line.body for line in said.events if line.body.type == "warning"]
        return [body.message for body in found if body.code == "fewer-rows"]

    further = "5 rows of the test set people are asked for and it has 3: all of them are scored"
    main = "1,000 rows of the test set are asked for and it has 8: all of them are scored"
    assert warnings("few", 5) == [further]
    assert warnings("settings", 1000) == [main, further.replace("5 rows", "1,000 rows")]
    assert warnings("few", 3) == [] and warnings(None, 1000) == []


def test_test_set_size_takes_rows_of_every_kind_where_they_take_turns(plan: Any) -> None:
    rows = [{"prompt": f"q{n}", "completion": "a", "tags": ["even", "odd"][n % 2 :][:1]} for n in range(40)]
    Path(plan.machine.paths.data["datasets/test.jsonl"]).write_text(lines(rows))
    found = scored_rows(with_people(plan, lines(PEOPLE), test_set_size=10)).main
    assert len(found) == 10 and {tag for row in found for tag in row["tags"]} == {"even", "odd"}
    assert found == scored_rows(with_people(plan, lines(PEOPLE), test_set_size=10)).main


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lines(PEOPLE) + "{", r"people\.jsonl:4: not valid JSON"),
        (
            lines(PEOPLE[:1]) + '\n\n{"prompt": "p"}',
            r"people\.jsonl:4: the row has \"prompt\" and no \"completion\"",
        ),
        ("\n", r"The test set people has no rows: datasets/people\.jsonl"),
    ],
)
def test_a_further_test_set_that_cannot_be_scored_is_named(plan: Any, content: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        scored_rows(with_people(plan, content))


def test_a_reference_that_is_none_of_the_labels_names_its_test_set(plan: Any) -> None:
    labelled = with_people(plan, lines(PEOPLE), scorer="classification")
    with pytest.raises(
        BadInput, match=r"answers of the test set people are none of .*people\.jsonl:2: 'never said"
    ):
        scored_rows(labelled)


def saved_model(folder: Path, seed: int) -> Path:
    model, tokenizer = tiny.model(seed), tiny.tokenizer()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def saved_adapter(folder: Path, seed: int) -> Path:
    adapted(seed).save_pretrained(folder)
    return folder


def compared(plan: Any, against: dict[str, Any]) -> Any:
    """The plan of `evaluate --against`."""
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["request"] = {"stage": "evaluate", "adapter": "somewhere", "against": against}
    return parse_plan(json.dumps(document))


def against_model(folder: Path) -> dict[str, Any]:
    base = {"name": folder.name, "sha256": None, "quantization": "none", "rope_scaling": None}
    return {"kind": "model", "base": base, "folder": str(folder)}


def test_another_model_is_a_third_column(plan: Any, tmp_path: Path) -> None:
    alone, _ = report(with_people(plan, lines(PEOPLE)))
    assert "against" not in alone and "against" not in alone["by_tag"][0]
    asked = compared(with_people(plan, lines(PEOPLE)), against_model(saved_model(tmp_path / "other", 2)))
    found, said = report(asked)
    kept = json.loads(json.dumps(found))
    short = without_examples(EvaluationResult.model_validate_json(json.dumps(found))).as_json()
    assert short["against"] == found["against"]
    against, people = found.pop("against"), found["test_sets"]["people"].pop("against")
    thirds = [line.pop("against") for name in ("by_tag", "by_level") for line in found[name]]
    for line in [*found["test_sets"]["people"]["by_tag"], *found["test_sets"]["people"]["by_level"]]:
        del line["against"]
    assert {**found, "seconds": 0, "confinement": 0} == {**alone, "seconds": 0, "confinement": 0}
    assert (against["name"], against["score"]["total"]) == ("other", 8)
    assert sorted(against["score"]["prompt"]["tried"]) == ["0", "3"], "it has the better of two prompts"
    assert people["score"]["prompt"]["shots"] == against["score"]["prompt"]["shots"]
    gap = kept["adapter"]["accuracy"] - against["score"]["accuracy"]
    assert against["comparison"]["difference"] == pytest.approx(gap)
    assert against["comparison"]["better"] - against["comparison"]["worse"] == 8 * gap
    assert sum(part["correct"] for part in thirds[:2]) == against["score"]["correct"]
    assert against["score"]["loss"] not in (kept["base"]["loss"], kept["adapter"]["loss"])
    (measured,) = [event.body.metrics for event in said if event.body.type == "evaluated"]
    assert measured["compared_accuracy"] == against["score"]["accuracy"]
    stages = [event.body.name for event in said if event.body.type == "stage"]
    assert stages.index("adapter judged") < stages.index("load base") < stages.index("compared model answers")


def with_base(plan: Any, folder: Path) -> Any:
    """The plan with a base that can be loaded."""
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    document["machine"]["paths"]["base"] = str(saved_model(folder, 1))
    document["recipe"]["base"]["sha256"] = None
    document["recipe"]["template"] = {"kind": "tokenizer", "source": None}
    return parse_plan(json.dumps(document))


@pytest.mark.parametrize("trained", ["same", "other", "nothing yet"])
def test_scores_of_an_adapter_that_a_training_has_replaced_are_not_left_with_the_next_one(
    plan: Any, tmp_path: Path, trained: str
) -> None:
    based, output = with_base(plan, tmp_path / "base"), Path(plan.machine.paths.output)
    final = saved_adapter(output / "final", 4)
    (output / "plan.json").write_text("{}")
    events, memory = Events.in_memory("evaluate")
    rows, subject = scored_rows(based), open_subject(based, str(final), events)
    final.rename(output / "previous")
    if trained != "nothing yet":
        saved_adapter(final, 4 if trained == "same" else 5)
    found = examine(based, events, rows, subject, str(final))
    assert found.adapter is not None and found.adapter.correct == 4
    warned = [event.body.code for event in memory.events if event.body.type == "warning"]
    assert ("adapter-replaced" in warned) == (trained != "same")
    assert (output / "evaluation.json").exists() == (trained == "same")
    assert final.exists() == (trained != "nothing yet")


def trained_on(base: Path, adapter: Path) -> None:
    """What a run's record says of the base."""
    digests = {name: it.as_json() for name, it in base_digests(base).items() if it is not None}
    record = {"format": 1, "name": "tapp", "score": None}
    record["base"] = {"name": "tb", "quantization": "none", "files": digests}
    (adapter / "expert.json").write_text(json.dumps(record))


def asked_of(plan: Any, request: dict[str, Any]) -> Any:
    document = json.loads(plan.model_dump_json(by_alias=True, exclude_unset=True))
    return parse_plan(json.dumps({**document, "request": request}))


@pytest.mark.parametrize("command", ["evaluate", "own run", "against", "generate"])
@pytest.mark.parametrize("base", ["same", "other", "not recorded"])
def test_an_adapter_on_other_weights_of_a_base_of_its_name_is_refused(
    plan: Any, tmp_path: Path, command: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    based, output = with_base(plan, tmp_path / "b" / "tb"), Path(plan.machine.paths.output)
    own = command in ("own run", "against")
    adapter = saved_adapter(output / "final" if own else tmp_path / "tapp", 4)
    if own:
        (output / "plan.json").write_text("{}")
    if command == "against":
        trained_on(tmp_path / "b" / "tb", adapter)
        adapter = saved_adapter(tmp_path / "other", 5)
    if base != "not recorded":
        was = tmp_path / "b" / "tb" if base == "same" else saved_model(tmp_path / "a" / "tb", 2)
        trained_on(was, adapter)
    request: dict[str, Any] = {"stage": "evaluate", "adapter": str(adapter)}
    if command == "against":
        against = {"kind": "adapter", "path": str(adapter)}
        request = {"stage": "evaluate", "adapter": str(output / "final"), "against": against}
    elif command == "generate":
        request = {"stage": "generate", "adapter": str(adapter), "prompt": "why"}
    asked, (events, memory) = asked_of(based, request), Events.in_memory("evaluate")
    stage = generate_run if command == "generate" else evaluate_run
    if base != "other":
        stage(asked, events)
        return
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    with pytest.raises(
        BadInput, match=r"b/tb/model\.safetensors is not the file that tapp was trained"
    ) as why:
        stage(asked, events)
    assert why.value.code == "base-digest"
    assert "--against" in str(why.value.hint) if command == "against" else "--model" in str(why.value.hint)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    assert "load base" not in [event.body.name for event in memory.events if event.body.type == "stage"]


def test_another_adapter_of_the_base_is_a_third_column(plan: Any, tmp_path: Path) -> None:
    based = with_base(plan, tmp_path / "base")
    same, other = saved_adapter(tmp_path / "run" / "final", 4), saved_adapter(tmp_path / "seed-5", 5)
    found, _ = report(compared(based, {"kind": "adapter", "path": str(same)}))
    against = found["against"]
    assert (against["name"], against["score"]["path"]) == ("run", str(same))
    assert "prompt" not in against["score"]
    assert against["score"]["correct"] == found["adapter"]["correct"] == 4
    assert (against["comparison"]["better"], against["comparison"]["worse"]) == (0, 0)
    worse, _ = report(compared(based, {"kind": "adapter", "path": str(other)}))
    assert worse["against"]["name"] == "seed-5"
    # A run's folder is called as its base: only its record has the name of the expert.
    for name, shown in (("another", "another"), ("expert-sample", "expert-sample (run)")):
        (same / "expert.json").write_text(json.dumps({"format": 1, "name": name}))
        assert report(compared(based, {"kind": "adapter", "path": str(same)}))[0]["against"]["name"] == shown
        subject = Subject(adapted(), tiny.tokenizer(), None, has_adapter=True)
        events, _ = Events.in_memory("evaluate")
        assert examine(plan, events, scored_rows(plan), subject, str(same)).other_adapter == shown
    assert worse["against"]["comparison"]["better"] > 0, "the rows are what the first adapter says"


def test_a_folder_that_takes_no_scores_is_refused_before_anything_is_scored(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Path(plan.machine.paths.output)
    output.mkdir(parents=True, exist_ok=True)
    (output / "plan.json").write_text("{}")

    def read_only(dir: Path) -> Any:
        assert dir == output
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    events, memory = Events.in_memory("evaluate")
    with pytest.raises(Storage, match=r"Cannot write evaluation\.json in .*: Read-only file system"):
        evaluate(plan, events, None)
    assert not memory.events


def test_what_is_compared_is_looked_for_before_anything_is_scored(plan: Any, tmp_path: Path) -> None:
    events, memory = Events.in_memory("evaluate")
    missing = compared(plan, {"kind": "adapter", "path": str(tmp_path / "nothing")})
    with pytest.raises(BadInput, match="is not an adapter"):
        evaluate(missing, events, None)
    with pytest.raises(Missing, match=r"there is no config\.json"):
        evaluate(compared(plan, against_model(tmp_path / "nothing")), events, None)
    assert not [event for event in memory.events if event.body.type == "stage"]


@pytest.mark.parametrize("odd", ["config.json", "tokenizer.json"])
def test_a_compared_model_that_transformers_cannot_read_is_refused_before_anything_is_scored(
    plan: Any, tmp_path: Path, odd: str
) -> None:
    folder = saved_model(tmp_path / "other", 2)
    (folder / odd).write_text('{"model_type": "of tomorrow"}')
    events, memory = Events.in_memory("evaluate")
    with pytest.raises(BadInput, match="cannot be loaded") as why:
        evaluate(compared(plan, against_model(folder)), events, None)
    assert why.value.code == "base-unreadable"
    assert not [event for event in memory.events if event.body.type == "stage"]


@pytest.mark.parametrize("has_template", [True, False])
def test_a_compared_model_without_a_chat_template_is_named(
    plan: Any, tmp_path: Path, has_template: bool
) -> None:
    folder = saved_model(tmp_path / "other", 2)
    if not has_template:
        (folder / "chat_template.jinja").unlink()
    events, memory = Events.in_memory("evaluate")
    check_against(compared(plan, against_model(folder)), events)
    warned = [event.body.message for event in memory.events if event.body.type == "warning"]
    assert warned == ["The tokenizer of other has no chat template: chatml is used"] * (not has_template)


def test_scores_are_kept_where_the_compared_model_cannot_be_loaded(plan: Any, tmp_path: Path) -> None:
    based, output = with_base(plan, tmp_path / "base"), Path(plan.machine.paths.output)
    final = saved_adapter(output / "final", 4)
    (output / "plan.json").write_text("{}")
    folder = saved_model(tmp_path / "other", 2)
    (folder / "model.safetensors").write_text("cut off")
    asked = compared(based, against_model(folder))
    events, memory = Events.in_memory("evaluate")
    with pytest.raises(BadInput, match="cannot be read") as why:
        evaluate(asked, events, str(final))
    assert why.value.code == "base-unreadable"
    (warned,) = [event.body for event in memory.events if getattr(event.body, "code", None) == "not-compared"]
    assert "adapter 50.0% of 8 rows" in warned.message
    left = json.loads((output / "evaluation.json").read_text())
    assert (left["adapter"]["correct"], left["base"]["total"]) == (4, 8) and "against" not in left
    assert len((output / "answers.jsonl").read_text().splitlines()) == 8
