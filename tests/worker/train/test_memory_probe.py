"""What is tried and asked for before the first step, and what an evaluation does where memory runs out."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load
from scene import put_data, rows, train

from expert_worker.errors import Failed, Storage
from expert_worker.train import memory
from expert_worker.train.dataset import InMemory
from expert_worker.train.engine import FastEngine
from expert_worker.train.trainer import Interval

ALIKE = InMemory([[([1, 2, 3, 4] * 3, [1, 2, 3, 4] * 3)] for _ in range(8)])
LONG = [([1, 2, 3, 4] * 15, [1, 2, 3, 4] * 15)]
ONE_LONG = InMemory([*ALIKE.packed[:7], LONG])
EVALUATED = {"recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 2}
SHORT = {"recipe.schedule.duration": {"unit": "steps", "value": 2}, "recipe.batch.rows_per_step": 2}


def tried(monkeypatch):
    """(with gradient, tokens) of every batch that the engine is given, in order."""
    seen = []
    backward, loss = FastEngine.backward, FastEngine.loss
    monkeypatch.setattr(
        FastEngine, "backward", lambda s, b, c: (seen.append((True, len(b.ids))), backward(s, b, c))[1]
    )
    monkeypatch.setattr(FastEngine, "loss", lambda s, b: (seen.append((False, len(b.ids))), loss(s, b))[1])
    return seen


def pretend_separate_memory(monkeypatch):
    """The trial as on an accelerator; all else stays on the CPU."""
    from expert_worker.train import session

    real = session.try_largest
    gpu = SimpleNamespace(type="cuda")
    monkeypatch.setattr(memory, "reserved", holding)
    monkeypatch.setattr(session, "try_largest", lambda w, r, o, v, d, e, t, s: real(w, r, o, v, gpu, e, t, s))


HELD = []


@contextmanager
def holding(size, device):
    HELD.append(size)
    yield
    HELD.append(0)


def test_the_trial_leaves_room_for_the_optimizer(tmp_path, monkeypatch):
    """Its state is allocated in the first step, after the trial; a resumed run has it already."""
    put_data(monkeypatch, ONE_LONG)
    pretend_separate_memory(monkeypatch)
    HELD.clear()
    rooms = []
    backward = FastEngine.backward
    monkeypatch.setattr(
        FastEngine, "backward", lambda s, b, c: (rooms.append(HELD[-1]), backward(s, b, c))[1]
    )
    ran = train(tmp_path, SHORT)
    state = 8 * ran.applied["adapter"]["trained_parameters"]
    assert state > 0 and rooms[0] == state and set(rooms[1:]) == {0}


def test_the_longest_batches_come_before_the_first_step(tmp_path, monkeypatch):
    put_data(monkeypatch, ONE_LONG, InMemory([*ALIKE.packed[:2], LONG]))
    plain = train(tmp_path, {**SHORT, **EVALUATED}, output="plain")
    pretend_separate_memory(monkeypatch)
    seen = tried(monkeypatch)
    ran = train(tmp_path, {**SHORT, **EVALUATED})
    assert seen[:2] == [(True, 60 + 12), (False, 60 + 12)]
    assert ran.applied["micro_batch.tried"] == ran.applied["evaluation_batch.tried"] == 2
    assert ran.losses == plain.losses
    assert ran.final("adapter_model.safetensors") == plain.final("adapter_model.safetensors")


def test_a_cpu_tries_only_what_goes_beyond_the_first_step(tmp_path, monkeypatch):
    put_data(monkeypatch, ALIKE, InMemory(ALIKE.packed[:2]))
    seen = tried(monkeypatch)
    ran = train(tmp_path, {**SHORT, **EVALUATED}, output="alike")
    assert "micro_batch.tried" not in ran.applied and "evaluation_batch.tried" not in ran.applied
    assert [kind for kind, _ in seen] == [True, True, False]

    put_data(monkeypatch, ALIKE, InMemory([LONG]))
    ran = train(tmp_path, {**SHORT, **EVALUATED}, output="long")
    assert "micro_batch.tried" not in ran.applied and ran.applied["evaluation_batch.tried"] == 1


def test_the_trial_leaves_loader_workers_their_order(tmp_path, monkeypatch):
    loader = {"use_cache": False, "workers": 0, "pin_memory": False, "prefetch_factor": None}
    put_data(monkeypatch, rows(12))
    plain = train(tmp_path, output="plain")
    pretend_separate_memory(monkeypatch)
    assert train(tmp_path, {"machine.loader": loader}).losses == plain.losses


def test_rows_that_do_not_fit_are_found_out_before_the_first_step(tmp_path, monkeypatch):
    put_data(monkeypatch, ONE_LONG)
    backward = FastEngine.backward

    def tight(self, batch, scale):
        if len(batch.ids) > 65:
            raise torch.OutOfMemoryError("out of memory")
        return backward(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", tight)
    pretend_separate_memory(monkeypatch)
    ran = train(tmp_path, {**SHORT, "machine.micro_batch": 2})
    assert [(body.kind, body.step) for body in ran.of("recovered")] == [("out_of_memory", 0)]
    assert ran.applied["micro_batch.tried"] == 1


@pytest.mark.parametrize("room", [70, 50])
def test_an_evaluation_that_does_not_fit_is_done_in_smaller_batches(tmp_path, room, monkeypatch):
    put_data(monkeypatch, ALIKE, InMemory([*ALIKE.packed[:3], LONG]))
    whole = train(tmp_path, {**SHORT, **EVALUATED}, output="whole")
    loss = FastEngine.loss

    def tight(self, batch):
        if len(batch.ids) > room:
            raise torch.OutOfMemoryError("out of memory")
        return loss(self, batch)

    monkeypatch.setattr(FastEngine, "loss", tight)
    if room < 60:
        with pytest.raises(Failed, match="One row alone"):
            train(tmp_path, {**SHORT, **EVALUATED})
        return
    ran = train(tmp_path, {**SHORT, **EVALUATED})
    assert ran.applied["evaluation_batch.tried"] == 1
    assert [body.kind for body in ran.of("recovered")] == ["out_of_memory"]
    measured, before = (run.of("evaluated")[0].metrics["eval_loss"] for run in (ran, whole))
    assert measured == pytest.approx(before, rel=1e-6)


def test_a_disk_without_room_is_refused_and_a_tight_one_reported(tmp_path, monkeypatch):
    put_data(monkeypatch, ALIKE)
    saves = {**SHORT, "recipe.schedule.duration": {"unit": "steps", "value": 6}, "recipe.saving.steps": 1}
    free = {"bytes": 0}
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free["bytes"]))
    with pytest.raises(Storage, match="needs about"):
        train(tmp_path, saves, output="none")
    assert not list((tmp_path / "none").glob("checkpoint-*"))
    free["bytes"] = 200_000
    ran = train(tmp_path, {**saves, "machine.save_total_limit": None}, output="tight")
    warnings = [body for body in ran.of("warning") if body.code == "disk-too-small"]
    assert len(warnings) == 1 and warnings[0].message.startswith("6 checkpoints")
    ran = train(tmp_path, {**saves, "machine.save_total_limit": 1}, output="enough")
    assert "disk-too-small" not in [body.code for body in ran.of("warning")]


def test_the_files_beside_the_weights_need_room_too(tmp_path, monkeypatch):
    put_data(monkeypatch, ALIKE)
    once = {**SHORT, "recipe.schedule.duration": {"unit": "steps", "value": 1}}
    first = train(tmp_path, once, output="first")
    adapter = sum(4 * tensor.numel() for tensor in load(first.final("adapter_model.safetensors")).values())
    needed = 5 * adapter + 2 * len(first.final("tokenizer.json"))
    for lacks, output in ((0, "enough"), (1, "less")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=needed - lacks: SimpleNamespace(free=free))
        if lacks:
            with pytest.raises(Storage, match="needs about"):
                train(tmp_path, once, output=output)
        else:
            train(tmp_path, once, output=output)


@pytest.mark.parametrize(
    ("every", "done"), [(None, []), (0, [10]), (3, [3, 6, 9, 10]), (5, [5, 10]), (10, [10]), (20, [10])]
)
def test_how_often_a_thing_is_due(every, done):
    rhythm = Interval(every, 10)
    assert [step for step in range(1, 11) if rhythm.due(step)] == done
    for step in range(11):
        assert rhythm.left(step) == sum(later > step for later in done)
