"""Experts in one pass through their base: each equals its run alone."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from plans import example_plan
from safetensors.torch import load
from scene import DEFAULTS, Ran, put_data, rows, save_base, train

from expert_worker import together
from expert_worker.errors import ExpertError, Failed, Interrupted
from expert_worker.events import Events
from expert_worker.stop import Stop
from expert_worker.train import engine, stage
from expert_worker.train.fast.batch import PackedBatch
from expert_worker.train.fast.kernels.adapted_linear import CardGroup, GroupedOnCard, on_card
from expert_worker.train.fused import FusedEngine, FusedGroup

STEPS = "recipe.schedule.duration"
EVALUATION = "recipe.evaluation"


def steps(count: int) -> dict[str, Any]:
    return {"unit": "steps", "value": count}


@pytest.fixture(autouse=True)
def data(monkeypatch):
    put_data(monkeypatch, validation=rows(4, seed=9))


@pytest.fixture
def on_the_cards_way(monkeypatch):
    """Batches as a whole, and LoRA with the kernels of a GPU."""
    monkeypatch.setattr(on_card, "DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(engine, "_lanes", lambda *_: None)


@pytest.fixture(params=["in pieces", "as on a card"])
def either_way(request):
    if request.param == "as on a card":
        request.getfixturevalue("on_the_cards_way")


@dataclass
class Trial:
    """One expert of a group: its changes to the plan, and what became of it."""

    name: str
    changes: dict[str, Any]
    listen: Any = None
    error: BaseException | None = None
    ran: Ran = field(default_factory=lambda: Ran({}))


def fused(folder: Path, *trials: Trial) -> dict[str, Trial]:
    folder.mkdir(exist_ok=True)
    save_base(folder / "base")
    group = FusedGroup()
    threads = []
    for trial in trials:
        output = folder / trial.name
        plan = example_plan(folder, {**DEFAULTS, "machine.paths.output": str(output), **trial.changes})
        events, memory = Events.in_memory()
        if trial.listen is not None:

            def write(event, line, trial=trial, events=events):
                trial.listen(events, event)

            events.attach(SimpleNamespace(write=write, close=lambda: None))
        trial.ran = Ran({}, memory.events, output)
        member = group.member(trial.name)

        def work(trial=trial, plan=plan, events=events, member=member):
            try:
                result = group.carry_out(member, lambda: stage.run(plan, events, member))
                trial.ran.result = json.loads(json.dumps(result))
            except BaseException as error:
                trial.error = error

        threads.append(threading.Thread(target=work, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return {trial.name: trial for trial in trials}


def assert_equal(one: Ran, other: Ran, tolerance: float = 1e-5) -> None:
    assert one.result["steps"] == other.result["steps"]
    torch.testing.assert_close(one.losses, other.losses, rtol=tolerance, atol=tolerance)
    assert one.rates == other.rates
    ours, theirs = (load(ran.final("adapter_model.safetensors")) for ran in (one, other))
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=tolerance, atol=tolerance)
    assert one.final("adapter_config.json") == other.final("adapter_config.json")


UNLIKE = {
    "a": {STEPS: steps(6)},
    "b": {
        STEPS: steps(9),
        "recipe.seed": 8,
        "recipe.adapter.rank": 7,
        "recipe.adapter.target_modules": ["q_proj", "v_proj", "down_proj"],
        "recipe.optimizer.learning_rate": 0.003,
        "machine.micro_batch": 1,
        "machine.accumulation": 2,
    },
    "c": {STEPS: steps(4), "recipe.adapter.dropout": 0.2, "recipe.adapter.kind": "rslora"},
}


@pytest.mark.usefixtures("either_way")
def test_unlike_experts_equal_their_runs_alone(tmp_path):
    done = fused(tmp_path, *(Trial(name, changes) for name, changes in UNLIKE.items()))
    for name, changes in UNLIKE.items():
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, changes, output=f"{name}-alone"))


@pytest.mark.usefixtures("on_the_cards_way")
def test_on_a_card_the_bases_products_are_one(tmp_path, monkeypatch):
    """Also of layers that only some of the experts adapt: `b` has no key, output, gate and up."""
    seen, call = [], GroupedOnCard.__call__

    def noted(self, x):
        seen.append((len(self.widths), [group is not None for group in self.experts]))
        return call(self, x)

    monkeypatch.setattr(GroupedOnCard, "__call__", noted)
    changes = {"a": UNLIKE["a"], "b": UNLIKE["b"]}
    done = fused(tmp_path, *(Trial(name, it) for name, it in changes.items()))
    assert not any(it.error for it in done.values())
    both, only = [True, True], [True, False]
    # Query, key, value, output, gate, up and down.
    assert seen[:7] == [(1, both), (1, only), (1, both), (1, only), (1, only), (1, only), (1, both)]
    seen.clear()
    fused(tmp_path / "alike", Trial("a", UNLIKE["a"]), Trial("c", UNLIKE["c"]))
    assert seen[:4] == [(3, both), (1, both), (2, both), (1, both)]


def test_experts_are_computed_together(tmp_path, monkeypatch):
    passes, whole = [], FusedGroup._pass

    def counted(group, requests):
        passes.append(sorted(member.expert for member, _ in requests))
        return whole(group, requests)

    monkeypatch.setattr(FusedGroup, "_pass", counted)
    fused(tmp_path, *(Trial(name, changes) for name, changes in UNLIKE.items()))
    # `c` has seven micro-batches, `a` ten and `b` thirty, of which the last it computes alone.
    assert passes == [["a", "b", "c"]] * 7 + [["a", "b"]] * 3


def test_the_base_is_in_memory_once(tmp_path, monkeypatch):
    found, load_base = [], FusedGroup.load_base

    def noted(*given):
        found.append(load_base(*given))
        return found[-1]

    monkeypatch.setattr(FusedGroup, "load_base", noted)
    fused(tmp_path, Trial("a", UNLIKE["a"]), Trial("b", UNLIKE["b"]))
    one, other = found
    head = [model.get_input_embeddings().weight.data_ptr() for model in found]
    assert one is not other and head[0] == head[1]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("checkpointing", ["selective", "full"])
def test_recomputed_layers_know_whose_tokens_they_see(tmp_path, checkpointing):
    more = {"machine.checkpointing": checkpointing}
    changes = {name: UNLIKE[name] | more for name in ("b", "c")}
    done = fused(tmp_path, *(Trial(name, it) for name, it in changes.items()))
    for name, it in changes.items():
        assert_equal(done[name].ran, train(tmp_path, it, output=f"{name}-alone"))


@pytest.mark.usefixtures("either_way")
def test_bf16_stays_near(tmp_path):
    more = {"machine.dtype": "bf16"}
    done = fused(tmp_path, *(Trial(name, UNLIKE[name] | more) for name in ("a", "b")))
    for name in ("a", "b"):
        alone = train(tmp_path, UNLIKE[name] | more, output=f"{name}-alone")
        torch.testing.assert_close(done[name].ran.losses, alone.losses, rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("either_way")
def test_on_a_base_of_4_bits(tmp_path):
    more = {"recipe.base.quantization": "int4"}
    changes = {name: it | more for name, it in UNLIKE.items()}
    done = fused(tmp_path, *(Trial(name, it) for name, it in changes.items()))
    for name, it in changes.items():
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, it, output=f"{name}-alone"))


def poison(monkeypatch, output: str, at: int) -> None:
    """Puts a NaN into the adapter of one expert before a step's update."""
    prepare = stage.prepare

    def prepared(plan, *given):
        session = prepare(plan, *given)
        if Path(plan.machine.paths.output).name == output:
            trainer, rate = session.trainer, session.trainer.rate

            def poisoned(step):
                if step == at:
                    trainer.parameters[0].data[0] = float("nan")
                return rate(step)

            trainer.rate = poisoned
        return session

    monkeypatch.setattr(stage, "prepare", prepared)


@pytest.mark.usefixtures("either_way")
def test_a_nan_stays_with_its_expert(tmp_path, monkeypatch):
    poison(monkeypatch, "b", at=2)
    done = fused(tmp_path, *(Trial(name, changes) for name, changes in UNLIKE.items()))
    assert isinstance(done["b"].error, Failed) and done["b"].error.code == "diverged"
    assert len(done["b"].ran.of("recovered")) == 3
    for name in ("a", "c"):
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, UNLIKE[name], output=f"{name}-alone"))


def test_an_error_fails_its_expert_alone(tmp_path, monkeypatch):
    """Whose rows fail is found out one by one, and the pass that failed leaves no gradient."""
    decode = PackedBatch.of_experts.__func__

    def refused(cls, batches):
        raise IndexError("a pass that fails")

    def failing(member, batch, scale, alone=FusedEngine.backward):
        if member._member.expert == "b" and batch.step == 2:
            raise IndexError("a row that fails")
        return alone(member, batch, scale)

    monkeypatch.setattr(FusedEngine, "backward", failing)
    monkeypatch.setattr(PackedBatch, "of_experts", classmethod(refused))
    done = fused(tmp_path, *(Trial(name, changes) for name, changes in UNLIKE.items()))
    monkeypatch.setattr(PackedBatch, "of_experts", classmethod(decode))
    assert isinstance(done["b"].error, IndexError) and len(done["b"].ran.losses) == 2
    for name in ("a", "c"):
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, UNLIKE[name], output=f"{name}-alone"))


@pytest.mark.usefixtures("on_the_cards_way")
def test_a_pass_that_fails_halfway_leaves_no_gradient(tmp_path, monkeypatch):
    """Each expert is computed alone then, beside the gradients of its earlier micro-batches."""
    whole, back, calls = FusedGroup._pass, CardGroup.back, []

    def failing(group, requests):
        calls.append(0)
        return whole(group, requests)

    def once(self, grad, draws):
        if calls:
            calls[-1] += 1
            if calls[-1] == 5:
                raise IndexError("a pass that fails")
        return back(self, grad, draws)

    monkeypatch.setattr(FusedGroup, "_pass", failing)
    monkeypatch.setattr(CardGroup, "back", once)
    changes = {name: UNLIKE[name] for name in ("b", "c")}
    done = fused(tmp_path, *(Trial(name, it) for name, it in changes.items()))
    assert len(calls) > 5 and min(calls) >= 5
    calls.clear()
    for name, it in changes.items():
        assert done[name].error is None
        assert_equal(done[name].ran, train(tmp_path, it, output=f"{name}-alone"))


@pytest.mark.parametrize("most", [1, 2])
def test_out_of_memory_takes_fewer_experts_at_once(tmp_path, monkeypatch, most):
    """Also where an expert has one row, that memory suffices for."""
    whole, tried = FusedGroup._pass, []

    def full(group, requests):
        tried.append(len(requests))
        if len(requests) > most:
            raise MemoryError("not enough memory")
        return whole(group, requests)

    monkeypatch.setattr(FusedGroup, "_pass", full)
    changes = {name: it | {STEPS: steps(3)} for name, it in UNLIKE.items()}
    done = fused(tmp_path, *(Trial(name, it) for name, it in changes.items()))
    assert tried.count(3) == 1 and max(tried[1:]) == 2
    assert (tried.count(2) > 1) == (most == 2)
    for name, it in changes.items():
        assert done[name].error is None
        found = done[name].ran.of("recovered")
        assert {one.kind for one in found} == {"out_of_memory"}
        assert [one.step for one in found] == [1] * len(found)
        assert_equal(done[name].ran, train(tmp_path, it, output=f"{name}-alone"))


def test_early_stopping_ends_one(tmp_path):
    stops = {
        STEPS: steps(12),
        "recipe.optimizer.learning_rate": 1.0,
        f"{EVALUATION}.strategy": "steps",
        f"{EVALUATION}.steps": 1,
        f"{EVALUATION}.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 2},
    }
    done = fused(tmp_path, Trial("a", UNLIKE["a"]), Trial("b", stops))
    assert done["b"].ran.applied["early_stopping"] < 12 and done["b"].error is None
    assert done["b"].ran.result["best_checkpoint"]
    assert_equal(done["a"].ran, train(tmp_path, UNLIKE["a"], output="a-alone"))


def stopping(at: int):
    def listen(events, event):
        if event.body.type == "progress" and event.body.step == at:
            events.stop.request(terminated=False)

    return listen


NEWEST = {"request.resume": {"from": "newest"}}


def test_a_run_begun_fused_is_resumed_alone_and_back(tmp_path):
    whole = train(tmp_path, UNLIKE["b"], output="b-alone")
    done = fused(tmp_path, Trial("a", UNLIKE["a"]), Trial("b", UNLIKE["b"], stopping(3)))
    assert isinstance(done["b"].error, Interrupted)
    assert done["b"].ran.of("checkpoint")[-1].step == 3
    assert_equal(done["a"].ran, train(tmp_path, UNLIKE["a"], output="a-alone"))
    # Alone from step 3 to 5, and fused with another to the end.
    with pytest.raises(Interrupted):
        train(tmp_path, UNLIKE["b"] | NEWEST, output="b", listen=stopping(5))
    done = fused(tmp_path, Trial("b", UNLIKE["b"] | NEWEST), Trial("c", UNLIKE["c"]))
    assert done["b"].ran.result["resumed_from"] == 5
    end = done["b"].ran
    torch.testing.assert_close(end.losses, whole.losses[5:], rtol=1e-5, atol=1e-5)
    ours, theirs = (load(ran.final("adapter_model.safetensors")) for ran in (end, whole))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine.fast_path": False}, "cannot be fused: it is switched off"),
        ({"machine.dtype": "bf16"}, "another base or number format"),
    ],
)
def test_what_cannot_be_fused_is_refused(tmp_path, changes, words):
    done = fused(tmp_path, Trial("a", UNLIKE["a"]), Trial("b", changes))
    assert isinstance(done["b"].error, ExpertError) and words in done["b"].error.message
    assert done["b"].error.code == "cannot-fuse" and done["a"].error is None


def test_a_stop_of_one_expert_while_the_group_loads_leaves_the_others(monkeypatch):
    carried_out = []
    common = Stop()

    def run(expert: str) -> Any:
        plan = SimpleNamespace(recipe=SimpleNamespace(expert=expert))
        events = SimpleNamespace(stop=Stop(common))
        return SimpleNamespace(
            plan=plan, events=events, carry_out=lambda group, member: carried_out.append(member.expert)
        )

    runs = [run("first"), run("second")]
    runs[0].events.stop.request(terminated=False)
    together._train(runs, common)
    assert sorted(carried_out) == ["first", "second"]
    common.request(terminated=False)
    with pytest.raises(Interrupted):
        together._train(runs, common)


def test_the_group_computes_on_the_device_of_its_experts(monkeypatch):
    """A new thread begins with the first GPU."""
    chosen: list[tuple[str, int]] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(
        torch.cuda, "set_device", lambda index: chosen.append((threading.current_thread().name, index))
    )
    assert FusedGroup().compute(torch.get_num_threads) == torch.get_num_threads()
    assert chosen == [("fused_0", 1)]
