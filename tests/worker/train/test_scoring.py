"""Scores at the end of a run: those of the adapter that it left, by the model that is in memory."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from plans import example_plan
from scene import put_data, train

from expert_worker.errors import BadInput
from expert_worker.evaluate.stage import evaluate
from expert_worker.events import Events

SOURCE = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
DECODING = {
    "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "stop_sequences": [], "max_new_tokens": 3
}  # fmt: skip


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """The changes to a plan that is to be scored on a test set of its own."""
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


@pytest.mark.parametrize("kind", ["dora", "adalora"])
def test_the_model_in_memory_scores_as_what_it_left(tmp_path, scored, kind, monkeypatch):
    def loads_again(*arguments):
        raise AssertionError("the base is in memory already")

    changes = {**scored, "recipe.adapter.kind": kind}
    with monkeypatch.context() as patched:
        patched.setattr("expert_worker.evaluate.subject.load_base", loads_again)
        ran = train(tmp_path, changes)
    found = ran.result["evaluation"]
    assert "failures" not in found
    assert "failures" in json.loads((ran.output / "evaluation.json").read_text())
    assert abs(found["adapter"]["loss"] - found["base"]["loss"]) > 1e-4

    shutil.rmtree(tmp_path / "home" / "base-scores")
    plan = example_plan(tmp_path, {**changes})
    loaded = evaluate(plan, Events.in_memory()[0], ran.result["adapter"])
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
    loaded = evaluate(plan, Events.in_memory()[0], ran.result["best_checkpoint"])
    found = ran.result["evaluation"]["adapter"]["loss"]
    assert found == pytest.approx(loaded["adapter"]["loss"], rel=1e-5)


def test_a_test_set_that_cannot_be_scored_is_refused_before_training(tmp_path, scored):
    with pytest.raises(BadInput, match="no test set"):
        train(tmp_path, {**scored, "recipe.data.test": []})
    assert not (tmp_path / "out").exists()


def test_nothing_is_scored_unasked(tmp_path, scored):
    assert "evaluation" not in train(tmp_path, {**scored, "request.evaluate": False}).result
