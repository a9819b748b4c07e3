"""Scores at the end of a run: those of the adapter that it left, by the model that is in memory."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import torch
from plans import example_plan
from scene import put_data, train

from expert_worker.errors import BadInput
from expert_worker.evaluate import decode
from expert_worker.evaluate.stage import evaluate
from expert_worker.events import Events

SOURCE = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
DECODING = {
    "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop_sequences": [], "max_new_tokens": 3
}  # fmt: skip


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """The changes for a plan that is scored on its own test set."""
    put_data(monkeypatch)
    templates = sys.modules["expert_worker.pretokenize"]
    templates.template_text = lambda plan, tokenizer: "{{ messages[-1].content }}"
    for name in ("train", "test"):
        rows = [{"prompt": f"w{n}", "completion": f"w{n + 1}"} for n in range(1, 60, 7)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "request.evaluate": True,
        "recipe.schedule.duration": {"unit": "steps", "value": 12},
        "recipe.data.train": [{**SOURCE, "name": "train.jsonl"}],
        "recipe.data.validation": [],
        "recipe.data.test": [SOURCE],
        "recipe.decoding": DECODING,
        "machine.paths.data": {
            f"{name}.jsonl": str(tmp_path / f"{name}.jsonl") for name in ("train", "test")
        },
    }


SOFT_PROMPT = {"name": "task", "tokens": 5, "init": "random", "init_text": None}


@pytest.mark.parametrize("kind", ["dora", "adalora", "prompt"])
def test_the_model_in_memory_scores_as_what_it_left(tmp_path, scored, kind, monkeypatch):
    def loads_again(*arguments):
        raise AssertionError("the base is in memory already")

    changes = {**scored, "recipe.adapter.kind": kind}
    if kind == "prompt":
        changes["recipe.adapter.soft_prompts"] = [SOFT_PROMPT]
    with monkeypatch.context() as patched:
        patched.setattr("expert_worker.evaluate.subject.load_base", loads_again)
        ran = train(tmp_path, changes)
    found = ran.result["evaluation"]
    assert "failures" not in found
    assert "failures" in json.loads((ran.output / "evaluation.json").read_text())
    assert abs(found["adapter"]["loss"] - found["base"]["loss"]) > 1e-5

    shutil.rmtree(tmp_path / "home" / "base-scores")
    plan = example_plan(tmp_path, {**changes})
    loaded = evaluate(plan, Events.in_memory()[0], ran.result["adapter"]).as_json()
    for who in ("base", "adapter"):
        assert found[who].pop("loss") == pytest.approx(loaded[who].pop("loss"), rel=1e-5)
        assert found[who] == loaded[who]


def test_the_best_checkpoint_is_what_is_scored(tmp_path, scored, monkeypatch):
    from scene import rows

    put_data(monkeypatch, validation=rows(4, seed=9))
    templates = sys.modules["expert_worker.pretokenize"]
    templates.template_text = lambda plan, tokenizer: "{{ messages[-1].content }}"
    changes = {
        **scored,
        "recipe.schedule.kind": "constant",
        "recipe.optimizer.learning_rate": 0.3,
        "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 2,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": None},
    }
    ran = train(tmp_path, changes)
    assert not ran.result["best_checkpoint"].endswith("checkpoint-12")
    plan = example_plan(tmp_path, {**changes})
    loaded = evaluate(plan, Events.in_memory()[0], ran.result["best_checkpoint"]).as_json()
    found = ran.result["evaluation"]["adapter"]["loss"]
    assert found == pytest.approx(loaded["adapter"]["loss"], rel=1e-5)


def test_a_test_set_that_cannot_be_scored_is_refused_before_training(tmp_path, scored):
    with pytest.raises(BadInput, match="no test set"):
        train(tmp_path, {**scored, "recipe.data.test": []})
    assert not (tmp_path / "out").exists()


def test_nothing_is_scored_unasked(tmp_path, scored):
    assert "evaluation" not in train(tmp_path, {**scored, "request.evaluate": False}).result


def by_accuracy(scored, tmp_path, **more):
    """Changes that choose by answers to the validation file."""
    rows = [{"prompt": f"w{n}", "completion": f"w{n + 1}"} for n in range(2, 58, 2)]
    (tmp_path / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        **scored,
        "request.evaluate": False,
        "recipe.schedule.duration": {"unit": "steps", "value": 24},
        "recipe.schedule.kind": "constant",
        "recipe.optimizer.learning_rate": 0.05,
        "recipe.decoding": {**DECODING, "max_new_tokens": 1},
        "recipe.evaluation.scorer": "exact",
        "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 2,
        "recipe.evaluation.best": {"metric": "accuracy", "greater_is_better": True, "patience": None},
        "recipe.data.validation": [{**SOURCE, "name": "validation.jsonl"}],
        "machine.paths.data": {
            **scored["machine.paths.data"],
            "validation.jsonl": str(tmp_path / "validation.jsonl"),
        },
        **more,
    }


PAIRS = [([n, n + 1], [-100, n + 1]) for n in range(2, 58, 2)]


@pytest.fixture
def validated(monkeypatch, scored):
    """Pairs of words to learn by heart, the same ones to be asked for."""
    from expert_worker.train.dataset import InMemory

    packed = InMemory([PAIRS[place::4] for place in range(4)])
    put_data(monkeypatch, train=packed, validation=packed)
    templates = sys.modules["expert_worker.pretokenize"]
    templates.template_text = lambda plan, tokenizer: "{{ messages[-1].content }}"
    return scored


@pytest.mark.parametrize("greater", [True, False])
def test_the_best_by_accuracy_is_what_answers_best_and_the_record_says_why(tmp_path, validated, greater):
    wanted = {"metric": "accuracy", "greater_is_better": greater, "patience": None}
    changes = {"recipe.evaluation.best": wanted}
    ran = train(tmp_path, by_accuracy(validated, tmp_path, **changes))
    measured = {body.step: body.metrics["accuracy"] for body in ran.of("evaluated")}
    assert measured[24] > 0.1 > measured[2]
    best = max(measured, key=lambda step: (measured[step] if greater else -measured[step], step))
    assert (best > 12) == greater
    assert ran.result["best_checkpoint"].endswith(f"checkpoint-{best}")
    record = json.loads((ran.output / "run.json").read_text())["best"]
    way = "highest" if greater else "lowest"
    losses = {body.step: body.metrics["eval_loss"] for body in ran.of("evaluated")}
    assert ran.result["eval_loss"] == losses[best]
    assert record["reason"] == f"the {way} accuracy of {len(measured)} evaluations"
    assert record["evaluations"] == {str(step): value for step, value in measured.items()}

    changes["recipe.data.test"] = [{**SOURCE, "name": "validation.jsonl"}]
    plan = example_plan(tmp_path, by_accuracy(validated, tmp_path, **changes))
    loaded = evaluate(plan, Events.in_memory()[0], ran.result["adapter"]).as_json()
    assert loaded["adapter"]["accuracy"] == measured[best]


def test_only_as_many_rows_are_looked_at_as_are_asked_for(tmp_path, validated):
    few = {"recipe.evaluation.rows": 7}
    ran = train(tmp_path, by_accuracy(validated, tmp_path, **few))
    shares = [body.metrics["accuracy"] * 7 for body in ran.of("evaluated")]
    assert any(shares) and all(abs(share - round(share)) < 1e-9 for share in shares)
    assert ran.applied["eval_rows"] == 7
    every = train(tmp_path, by_accuracy(validated, tmp_path), output="every")
    assert every.applied["eval_rows"] == len(PAIRS)


def test_bad_validation_rows_are_skipped_as_for_the_loss(tmp_path, validated):
    whole = train(tmp_path, by_accuracy(validated, tmp_path), output="whole")
    changes = by_accuracy(validated, tmp_path)
    with (tmp_path / "validation.jsonl").open("a") as file:
        file.write('{"prompt": "w1"}\n{"prompt": \n')
    with pytest.raises(BadInput, match=r"validation\.jsonl:29: "):
        train(tmp_path, changes, output="refused")
    ran = train(tmp_path, {**changes, "recipe.data.on_bad_row": "skip"})
    assert [body.metrics for body in ran.of("evaluated")] == [body.metrics for body in whole.of("evaluated")]


def test_answers_that_do_not_fit_together_end_no_run(tmp_path, validated, monkeypatch):
    """Later evaluations keep the number of rows that fit."""
    made = decode.write

    def tight(model, tokenizer, ids, *rest, **more):
        if len(ids) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return made(model, tokenizer, ids, *rest, **more)

    usual = train(tmp_path, by_accuracy(validated, tmp_path), output="usual")
    monkeypatch.setattr(decode, "write", tight)
    ran = train(tmp_path, by_accuracy(validated, tmp_path))
    assert [body.metrics for body in ran.of("evaluated")] == [body.metrics for body in usual.of("evaluated")]
    first = ran.of("evaluated")[0].step
    assert [(body.kind, body.step) for body in ran.of("recovered")] == [("out_of_memory", first)] * 2


def test_accuracy_without_rows_to_ask_is_refused(tmp_path, validated):
    with pytest.raises(BadInput, match="no file holds validation rows"):
        train(tmp_path, by_accuracy(validated, tmp_path, **{"recipe.data.validation": []}))
