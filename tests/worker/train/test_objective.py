"""A run computes its objective alone: another one gives another loss, other figures and other weights."""

from __future__ import annotations

import pytest
from plans import example_plan
from scene import put_data, rows, train

from expert_worker.errors import BadInput
from expert_worker.train import objective
from expert_worker.train.objective import SupervisedFineTuning


class EveryDocumentEqually(SupervisedFineTuning):
    """The mean over documents of each document's own mean, however long it is."""

    def weight(self, batch):
        return sum(1 for part in batch.pieces(len(batch.lengths)) if len(part.sources))

    def loss(self, token_loss, batch):
        parts = [part for part in batch.pieces(len(batch.lengths)) if len(part.sources)]
        return sum(token_loss(part) / len(part.sources) for part in parts) if parts else token_loss(batch)

    def metrics(self, loss):
        return {"eval_loss": loss, "mean_of_documents": loss}


@pytest.mark.parametrize("fast", [True, False])
def test_trainer_engines_and_validation_take_the_loss_from_the_objective(fast, tmp_path, monkeypatch):
    put_data(monkeypatch, rows(), rows(4, seed=9))
    changes = {
        "machine.fast_path": fast,
        "recipe.evaluation.strategy": "epoch",
        "recipe.schedule.duration": {"unit": "steps", "value": 3},
    }
    usual = train(tmp_path, changes, output="usual")
    monkeypatch.setitem(objective._OBJECTIVES, "sft", EveryDocumentEqually())
    other = train(tmp_path, changes, output="other")
    assert usual.losses[0] != pytest.approx(other.losses[0], rel=1e-4)
    assert usual.final("adapter_model.safetensors") != other.final("adapter_model.safetensors")
    names = [set(ran.of("evaluated")[-1].metrics) for ran in (usual, other)]
    assert names == [{"eval_loss", "eval_perplexity"}, {"eval_loss", "mean_of_documents"}]
    tokens = [[step.supervised_tokens for step in ran.of("progress")] for ran in (usual, other)]
    assert tokens[0] == tokens[1], "what was supervised is a property of the data"


def test_both_paths_give_the_same_loss_for_any_objective(tmp_path, monkeypatch):
    put_data(monkeypatch)
    monkeypatch.setitem(objective._OBJECTIVES, "sft", EveryDocumentEqually())
    fast, plain = (
        train(tmp_path, {"machine.fast_path": path}, output=str(path)).losses for path in (True, False)
    )
    assert fast == pytest.approx(plain, rel=1e-4)


def test_the_default_objective_changes_no_recipe(tmp_path, monkeypatch):
    """Recipes from before it was a choice keep their digests, checkpoints and records."""
    put_data(monkeypatch)
    ran, named = train(tmp_path), train(tmp_path, {"recipe.objective": "sft"}, output="named")
    assert ran.final("adapter_model.safetensors") == named.final("adapter_model.safetensors")
    written = [path.read_text() for path in ran.output.rglob("*.json") if '"recipe"' in path.read_text()]
    assert len(written) > 1, "run.json and each checkpoint"
    assert not any('"objective"' in text for text in written)


def test_an_unknown_objective_is_refused(tmp_path):
    with pytest.raises(BadInput, match="objective"):
        example_plan(tmp_path, {"recipe.objective": "dpo"})
