"""The whole stage on a tiny base: what it leaves, what it says, and that it learns."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load
from scene import put_data, rows, train
from tiny import EVERY_LINEAR
from transformers import AutoModelForCausalLM

from expert_worker.errors import BadInput, Failed, Interrupted
from expert_worker.events import Events
from expert_worker.results import LayersRecord
from expert_worker.train import memory_probe, stage
from expert_worker.train.adapter import trained
from expert_worker.train.checkpoints import CheckpointManager
from expert_worker.train.dataset import InMemory
from expert_worker.train.distributed import DistContext
from expert_worker.train.trainer import EVALUATION_BUDGET, TRAIN_BUDGET, Trainer


@pytest.fixture(autouse=True)
def data(monkeypatch):
    put_data(monkeypatch, validation=rows(4, seed=9))


def test_it_learns_and_leaves_a_plain_adapter(tmp_path):
    ran = train(tmp_path, {"recipe.schedule.duration": {"unit": "steps", "value": 30}})
    assert ran.losses[-1] < 0.92 * ran.losses[0]
    assert ran.result["steps"] == 30 and ran.result["ok"]
    assert ran.result["train_loss"] == pytest.approx(sum(ran.losses) / 30, rel=0.05)
    assert ran.applied["path"] == "fast"
    names = {path.name for path in (ran.output / "final").iterdir()}
    assert {
        "adapter_config.json",
        "adapter_model.safetensors",
        "tokenizer.json",
        "README.md",
        "chat_template.jinja",
        "generation_config.json",
        "expert.json",
    } <= names
    about = json.loads(ran.final("expert.json"))
    weights = hashlib.sha256(ran.final("adapter_model.safetensors")).hexdigest()
    assert about["files"]["adapter_model.safetensors"]["sha256"] == weights and about["score"] is None
    assert about["data"] and about["base"]["files"]["config.json"]
    config = json.loads(ran.final("adapter_config.json"))
    assert config["base_model_name_or_path"] == "tiny" and config["target_modules"] == sorted(EVERY_LINEAR)
    record = json.loads((ran.output / "run.json").read_text())
    assert record["applied"]["optimizer"]["class"] == "AdamW"


def test_record_and_card_have_the_system_message_of_the_training_rows(tmp_path):
    said = [("system", "Answer in SQL."), ("user", "Which?"), ("assistant", "SELECT 1")]
    row = {"messages": [{"role": role, "content": text} for role, text in said]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    changes = {
        "recipe.schedule.duration": {"unit": "steps", "value": 1},
        "recipe.data.train": [{"name": "rows.jsonl", "format": "jsonl", "weight": 1.0}],
        "machine.paths.data": {"rows.jsonl": str(tmp_path / "rows.jsonl")},
    }
    ran = train(tmp_path, changes)
    assert json.loads(ran.final("expert.json"))["system_message"] == "Answer in SQL."
    assert '{"role": "system", "content": "Answer in SQL."},' in ran.final("README.md").decode()
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "Which?", "completion": "SELECT 1"}) + "\n")
    assert "system_message" not in json.loads(train(tmp_path / "other", changes).final("expert.json"))


def with_row(folder: Path, system: str) -> dict[str, Any]:
    """Changes of a plan that reads one row with this system message, and knows its file."""
    said = [("system", system), ("user", "Which?"), ("assistant", "SELECT 1")]
    row = {"messages": [{"role": role, "content": text} for role, text in said]}
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    return {
        "recipe.schedule.duration": {"unit": "steps", "value": 2},
        "recipe.data.train": [{"name": "rows.jsonl", "format": "jsonl", "weight": 1.0}],
        "machine.paths.data": {"rows.jsonl": str(file)},
        "inputs": {
            "recipe": "r",
            "data": {"rows.jsonl": hashlib.sha256(file.read_bytes()).hexdigest()},
            "base": None,
            "tokenizer": None,
            "template": "t",
            "code": {"version": "0", "worker": None, "native": None},
        },
    }


@pytest.mark.parametrize("edit", ["change", "remove"])
def test_data_that_is_edited_while_the_run_trains_is_recorded_as_it_was(tmp_path, edit):
    changes, file = with_row(tmp_path, "Answer in SQL."), tmp_path / "rows.jsonl"

    def listen(events, event):
        if event.body.type != "progress" or event.body.step != 1:
            return
        if edit == "change":
            file.write_text(file.read_text().replace("SQL", "Cypher"))
        else:
            file.unlink()

    ran = train(tmp_path, changes, listen=listen)
    expert = json.loads(ran.final("expert.json"))
    assert expert["system_message"] == "Answer in SQL."
    run = json.loads((ran.output / "run.json").read_bytes())
    assert run["data"]["rows.jsonl"]["sha256"] == changes["inputs"]["data"]["rows.jsonl"]


@pytest.mark.parametrize("inside", [True, False])
def test_of_rows_that_another_tool_tokenized_their_folder_is_recorded(tmp_path, monkeypatch, inside):
    put_data(monkeypatch, key="foreign-" + "c" * 24)
    changes = with_row(tmp_path, "Answer in SQL.")
    expert = tmp_path / "expert-sample"
    changes["machine.paths.cache"] = str((expert if inside else tmp_path) / "tokenized" / "sft")
    ran, named = train(tmp_path, changes), "tokenized/sft" if inside else "sft"
    record = json.loads(ran.final("expert.json"))
    assert record["data"] == {named: None} and "system_message" not in record
    assert json.loads((ran.output / "run.json").read_bytes())["data"] == record["data"]
    card = ran.final("README.md").decode()
    assert f"| Training | `{named}`, tokenized by another tool |" in card
    assert not any(words in card for words in ("rows.jsonl", "Answer in SQL.", "Trained on"))


def test_data_that_changed_since_the_plan_is_refused_before_the_first_step(tmp_path):
    changes = with_row(tmp_path, "Answer in SQL.")
    with_row(tmp_path, "Answer in Cypher.")
    with pytest.raises(BadInput, match=r"^rows\.jsonl has changed since this training was planned$"):
        train(tmp_path, changes)
    assert not (tmp_path / "out" / "final").exists()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("lora", {}), ("rslora", {}), ("dora", {}), ("lokr", {}), ("adalora", {}),
        ("ia3", {"recipe.adapter.rank": None, "recipe.adapter.alpha": None,
                 "recipe.adapter.feedforward_modules": ["down_proj"]}),
        ("prompt", {"recipe.adapter.rank": None, "recipe.adapter.alpha": None,
                    "recipe.adapter.target_modules": [],
                    "recipe.adapter.soft_prompts": [
                        {"name": "a", "tokens": 3, "init": "text", "init_text": "w1 w2"},
                        {"name": "b", "tokens": 2, "init": "vocab_sample", "init_text": None},
                        {"name": "c", "tokens": 2, "init": "random", "init_text": None}]}),
    ],
)  # fmt: skip
def test_every_adapter_loads_back_with_plain_peft(tmp_path, kind, more, monkeypatch):
    kept = {}
    from expert_worker.train import finalize

    original = finalize.Finish.write

    def spy(self, *arguments):
        result = original(self, *arguments)
        kept["logits"] = logits(self._trainer.model.eval())
        return result

    monkeypatch.setattr(finalize.Finish, "write", spy)
    ran = train(
        tmp_path,
        {"recipe.adapter.kind": kind, "recipe.schedule.duration": {"unit": "steps", "value": 12}, **more},
    )
    assert ran.losses[-1] < ran.losses[0]
    assert ran.applied["path"] == ("plain" if kind == "prompt" else "fast"), ran.of("applied")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    plain = logits(base)
    loaded = logits(PeftModel.from_pretrained(base, ran.output / "final").eval())
    assert float((loaded - kept["logits"]).abs().max()) < 1e-5
    assert not torch.equal(plain[:, -1], loaded[:, -1])


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor([[5, 6, 7, 8]])).logits


@pytest.mark.parametrize("changes", [{}, {"recipe.adapter.kind": "dora", "recipe.adapter.dropout": 0.1}])
def test_the_same_seed_gives_the_same_bytes(tmp_path, changes):
    one, two = train(tmp_path, changes), train(tmp_path, changes, output="again")
    for name in ("adapter_model.safetensors", "adapter_config.json", "README.md"):
        assert one.final(name) == two.final(name)
    other = train(tmp_path, {**changes, "recipe.seed": 43}, output="other")
    assert other.final("adapter_model.safetensors") != one.final("adapter_model.safetensors")


def test_the_micro_batch_does_not_decide_the_result(tmp_path):
    dora = {"recipe.adapter.kind": "dora", "recipe.adapter.dropout": 0.1}
    one = train(tmp_path, {**dora, "machine.micro_batch": 4})
    two = train(tmp_path, {**dora, "machine.micro_batch": 1}, output="again")
    assert two.losses == pytest.approx(one.losses, rel=1e-5)


def test_the_plain_path_agrees_with_the_fast_one(tmp_path):
    for number, kind in enumerate(("lora", "dora")):
        changes = {
            "recipe.adapter.kind": kind,
            "recipe.adapter.dropout": 0.1,
            "recipe.optimizer.neftune": {"noise_alpha": 5.0},
        }
        fast = train(tmp_path, changes, output=f"fast{number}")
        plain = train(tmp_path, {**changes, "machine.fast_path": False}, output=f"plain{number}")
        assert plain.applied["path"] == "plain"
        assert plain.losses == pytest.approx(fast.losses, rel=1e-4)


def test_eager_attention_is_given_where_it_is_asked_for(tmp_path):
    fast = train(tmp_path)
    eager = train(tmp_path, {"machine.sdpa": False}, output="eager")
    assert eager.applied["path"] == "plain" and eager.applied["attention"] == "eager"
    assert not [key for key in eager.applied if key.startswith("kernels.")]
    warned = [[body.code for body in ran.of("warning")].count("eager-attention") for ran in (fast, eager)]
    assert warned == [0, 1]
    assert eager.losses == pytest.approx(fast.losses, rel=1e-4)


def resumable(more=None):
    return {
        "recipe.schedule.duration": {"unit": "steps", "value": 7},
        "recipe.saving.steps": 2,
        "recipe.adapter.dropout": 0.1,
        **(more or {}),
    }


KEEPS_STATE = {
    str(value): {key: value}
    for key, value in (
        ("recipe.adapter.kind", "dora"),
        ("recipe.adapter.kind", "adalora"),
        ("recipe.adapter.kind", "lokr"),
        ("recipe.base.quantization", "int4"),
        ("machine.dtype", "fp16"),
        ("recipe.optimizer.name", "adamw_bnb_8bit"),
        ("recipe.optimizer.name", "adafactor"),
        ("recipe.optimizer.name", "muon"),
    )
}


@pytest.fixture(scope="module")
def whole_runs(tmp_path_factory):
    """Of each kind one run that nothing stopped."""

    @cache
    def of(kind):
        with pytest.MonkeyPatch.context() as patched:
            put_data(patched, validation=rows(4, seed=9))
            return train(tmp_path_factory.mktemp(kind), resumable(KEEPS_STATE[kind]), output="whole")

    return of


# Where it stops is decided before what it keeps: at every change, each kind within a step, and one after it.
@pytest.mark.parametrize(
    ("kind", "at"),
    [
        pytest.param(kind, at, marks=pytest.mark.full if at == "step" and kind != "dora" else ())
        for kind in KEEPS_STATE
        for at in ("step", "micro")
    ],
)
def test_a_stopped_run_resumes_to_the_same_bytes(tmp_path, kind, at, monkeypatch, whole_runs):
    more, whole = KEEPS_STATE[kind], whole_runs(kind)
    original = getattr(Events, "progress" if at == "step" else "accumulating")

    def stop(self, *arguments, **named):
        original(self, *arguments, **named)
        if (named.get("step") or arguments[0]) >= 3:
            self.stop.request(terminated=True)

    with monkeypatch.context() as patched, pytest.raises(Interrupted) as caught:
        patched.setattr(Events, original.__name__, stop)
        train(tmp_path, resumable(more))
    assert caught.value.exit_code == 143
    on = train(tmp_path, {**resumable(more), "request.resume": {"from": "newest"}})
    assert on.result["resumed_from"] >= 1
    assert on.result["train_loss"] == whole.result["train_loss"]
    for path in sorted((whole.output / "final").iterdir()):
        assert path.read_bytes() == on.final(path.name), path.name


def test_a_stopped_process_leaves_the_others_before_it_waits_for_the_mirror(tmp_path, monkeypatch):
    did = []
    dist = DistContext(leave=lambda: did.append("left"))
    monkeypatch.setattr(stage, "process_group", lambda machine, events: nullcontext(dist))
    monkeypatch.setattr(CheckpointManager, "drain", lambda self: did.append("drained"))

    def stop(events, event):
        if event.body.type == "progress":
            events.stop.request(terminated=True)

    with pytest.raises(Interrupted):
        train(tmp_path, listen=stop)
    assert did == ["left", "drained"]


def test_a_run_that_is_resumed_with_other_layers_says_so(tmp_path):
    changes = resumable({"recipe.schedule.duration": {"unit": "steps", "value": 4}})
    whole = train(tmp_path, changes, output="whole")

    def stop(events, event):
        if event.body.type == "progress" and event.body.step >= 2:
            events.stop.request(terminated=True)

    with pytest.raises(Interrupted):
        train(tmp_path, changes, listen=stop)
    shutil.copytree(tmp_path / "out", tmp_path / "same")
    newest = {**changes, "request.resume": {"from": "newest"}}
    same = train(tmp_path, newest, output="same")
    eager = train(tmp_path, {**newest, "machine.sdpa": False})
    of_same, of_eager = (
        [it for it in ran.of("warning") if it.code == "other-layers"] for ran in (same, eager)
    )
    name = "adapter_model.safetensors"
    assert same.final(name) == whole.final(name) and not of_same
    (warned,) = of_eager
    assert "began with sdpa attention and is resumed with eager attention" in warned.message
    assert warned.hint.startswith("Set use_sdpa, flash_attention_2 as when it began")
    assert same.result["resumed_from"] == eager.result["resumed_from"] == 2
    state = json.loads((eager.output / "checkpoint-4" / "state.json").read_text())
    assert state["facts"]["layers"] == {
        "path": "plain", "attention": "eager", "compiled": None, "piece_tokens": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message", "keys"),
    [
        ({}, None, None),
        ({"path": "plain"}, "the fast path and is resumed with the plain path", "Train it again"),
        (
            {"path": "plain", "attention": "eager", "compiled": "inductor, default"},
            "sdpa attention and is resumed with eager attention, which",
            "Set use_sdpa, flash_attention_2 as",
        ),
        (
            {"compiled": "inductor, default"},
            "layers that are not compiled and is resumed with compiled layers (inductor, default)",
            "Set torch_compile, torch_compile_backend, torch_compile_mode as",
        ),
        (
            {"attention": "flash_attention_2", "compiled": "eager, default"},
            "flash_attention_2 attention and compiled layers (eager, default)",
            "Set use_sdpa, flash_attention_2, torch_compile,",
        ),
    ],
)
def test_each_difference_of_the_layers_is_named_with_its_settings(changes, message, keys):
    before = LayersRecord(path="fast", attention="sdpa", compiled=None, piece_tokens=512)
    for was in (before, None):
        events, memory = Events.in_memory()
        stage._mention_other_layers(was, before.model_copy(update=changes), events)
        found = [event.body for event in memory.events]
        assert len(found) == (was is not None and message is not None)
        assert all(message in body.message and body.hint.startswith(keys) for body in found)


def compiles_nothing(_graph, _inputs):
    raise RuntimeError("this machine compiles nothing")


@pytest.fixture
def failing_compiler():
    torch._dynamo.reset()
    if compiles_nothing.__name__ not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(compiles_nothing)
    yield {"backend": compiles_nothing.__name__, "mode": "default", "asked": True}
    torch._dynamo.reset()


def test_layers_whose_compilation_fails_are_recorded_as_they_were_computed(tmp_path, failing_compiler):
    ran = train(
        tmp_path,
        {"machine.compile": failing_compiler, "recipe.schedule.duration": {"unit": "steps", "value": 2}},
    )
    said = [it.body for it in ran.events if it.body.type in ("applied", "warning")]
    assert [it.value for it in said if it.type == "applied" and it.key == "torch_compile"] == [
        "compiles_nothing",
        False,
    ]
    (warned,) = [it.message for it in said if it.type == "warning" and it.code == "not-compiled"]
    assert "uncompiled" in warned and "this machine compiles nothing" in warned
    assert json.loads((ran.output / "run.json").read_text())["applied"]["torch_compile"] is False
    states = list(ran.output.rglob("checkpoint-*/state.json"))
    assert states and all(json.loads(it.read_text())["facts"]["layers"]["compiled"] is None for it in states)


def test_a_run_that_is_not_compiled_again_is_computed_in_one_way(tmp_path, monkeypatch, failing_compiler):
    # Then no batch is tried before the first step.
    monkeypatch.setattr(memory_probe, "_MUCH_LONGER", 1e9)
    wanted = {"backend": "compiles_nothing", "mode": "default", "asked": True}
    changes = resumable(
        {"machine.compile": wanted, "recipe.schedule.duration": {"unit": "steps", "value": 4}}
    )

    def stop(events, event):
        if event.body.type == "progress" and event.body.step >= 2:
            events.stop.request(terminated=True)

    with pytest.raises(Interrupted):
        train(tmp_path, changes, listen=stop)
    torch._dynamo.reset()
    resumed = train(tmp_path, {**changes, "request.resume": {"from": "newest"}})
    codes = [it.code for it in resumed.of("warning")]
    assert "not-compiled" in codes and "other-layers" not in codes


def counted_validation(stop_at=None):
    """A listener that counts each evaluation's rows, and asks for a stop in the one after step `stop_at`."""
    counted: dict[int, int] = {}

    def listen(events, event):
        body = event.body
        if body.type == "stage" and body.name == "evaluate":
            counted[int(body.detail.removeprefix("after step "))] = 0
        elif body.type == "advance" and body.stage == "evaluate":
            step = max(counted)
            counted[step] = body.done
            if step == stop_at:
                events.stop.request(terminated=True)

    return counted, listen


@pytest.mark.parametrize("best", [True, False], ids=["best by loss", "no best"])
@pytest.mark.parametrize("at", [4, 6], ids=["between", "last"])
def test_a_stop_ends_an_evaluation_of_the_loss_between_batches(tmp_path, at, best):
    by_loss = {"metric": "eval_loss", "greater_is_better": False, "patience": None}
    changes = {
        **resumable(),
        "recipe.schedule.duration": {"unit": "steps", "value": 6},
        "recipe.saving.steps": 5,
        "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 2,
        "recipe.evaluation.best": by_loss if best else None,
        "machine.micro_batch": 1,
    }
    whole = train(tmp_path, changes, output="whole")
    counted, listen = counted_validation(stop_at=at)
    with pytest.raises(Interrupted, match="Stopped during an evaluation; its checkpoint is saved"):
        train(tmp_path, changes, listen=listen)
    assert counted == {step: 1 if step == at else 4 for step in range(2, at + 1, 2)}

    def facts():
        return json.loads((tmp_path / "out" / f"checkpoint-{at}" / "state.json").read_text())["facts"]

    assert facts()["evaluation_owed"] and not (tmp_path / "out" / "final").exists()
    counted, listen = counted_validation()
    on = train(tmp_path, {**changes, "request.resume": {"from": "newest"}}, listen=listen, must_learn=at < 6)
    assert on.result["resumed_from"] == at and counted == dict.fromkeys(range(at, 7, 2), 4)
    # A stop saved it, and no other checkpoint has these steps.
    assert not facts().get("evaluation_owed") and facts()["metrics"]["eval_loss"] > 0
    for name in ("eval_loss", "train_loss"):
        assert on.result[name] == whole.result[name]
    for path in sorted((whole.output / "final").iterdir()):
        assert path.read_bytes() == on.final(path.name), path.name


def test_another_machine_resumes_from_the_mirror(tmp_path):
    """Compressed there, and with nothing but the mirror at hand."""
    mirror = {"target": str(tmp_path / "mirror"), "compress": True, "background": False}
    whole = train(tmp_path, {**resumable(), "machine.mirror": mirror})
    there = tmp_path / "mirror" / "checkpoint-2"
    assert (there / "parameters.safetensors.zst").is_file()
    named = {"request.resume": {"from": "checkpoint", "path": str(there)}}
    again = train(tmp_path, {**resumable(), **named}, output="again")
    assert again.result["resumed_from"] == 2
    assert again.final("adapter_model.safetensors") == whole.final("adapter_model.safetensors")
    assert not list(again.output.rglob("*.zst"))


@pytest.mark.parametrize("compress", [False, True])
def test_a_run_resumed_from_a_mirror_that_dies_before_it_saves_resumes_again(tmp_path, compress):
    """With one more kill, and the mirror out of reach."""
    mirror = {"target": str(tmp_path / "mirror"), "compress": compress, "background": False}
    whole = train(tmp_path, {**resumable(), "machine.mirror": mirror})
    there = str(tmp_path / "mirror" / "checkpoint-4")

    def dies(events, event):
        if event.body.type == "progress":
            raise RuntimeError("killed")

    named = {"request.resume": {"from": "checkpoint", "path": there}}
    with pytest.raises(RuntimeError, match="killed"):
        train(tmp_path, {**resumable(), **named}, output="again", listen=dies)
    shutil.rmtree(tmp_path / "mirror")
    again = train(tmp_path, {**resumable(), "request.resume": {"from": "newest"}}, output="again")
    assert again.result["resumed_from"] == 4
    assert again.final("adapter_model.safetensors") == whole.final("adapter_model.safetensors")


def test_a_named_checkpoint_that_is_refused_leaves_the_newer_ones(tmp_path):
    whole = train(tmp_path, resumable())
    before = sorted(path.name for path in whole.output.glob("checkpoint-*"))
    assert before[0] == "checkpoint-2" and len(before) > 1
    named = {"request.resume": {"from": "checkpoint", "path": str(whole.output / "checkpoint-2")}}
    with pytest.raises(BadInput, match="recipe is not the one"):
        train(tmp_path, {**resumable(), **named, "recipe.seed": 99})
    assert sorted(path.name for path in whole.output.glob("checkpoint-*")) == before


def test_a_mirror_that_hangs_keeps_no_adapter_from_final(tmp_path, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr("expert_worker.checkpoint.mirror.Mirror._copy", lambda self, folder: gate.wait(60))
    finished = []

    def listen(events, event):
        if event.body.type == "stage" and event.body.name == "mirror":
            finished.append((tmp_path / "out" / "final" / "expert.json").is_file())
            gate.set()

    mirror = {"target": "memory://bucket", "compress": False, "background": True}
    train(tmp_path, {**resumable(), "machine.mirror": mirror}, listen=listen)
    assert finished == [True]


@pytest.fixture
def mirrored(tmp_path, monkeypatch):
    """Trains with a mirror, the best evaluation at `best`, and leaves nothing but the mirror."""

    def run(best, compress):
        monkeypatch.setattr(
            "expert_worker.train.session.Validation.run",
            lambda self, step, stop=None: {"eval_loss": 5.0 + abs(step - best)},
        )
        changes = resumable({
            "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
            "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": None},
            "machine.mirror": {
                "target": str(tmp_path / "mirror"), "compress": compress, "background": False
            },
        })  # fmt: skip
        whole = train(tmp_path, changes)
        shutil.rmtree(whole.output)
        named = {"from": "checkpoint", "path": str(tmp_path / "mirror" / "checkpoint-6")}
        return whole.result, {**changes, "request.resume": named}

    return run


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("best", [3, 6])
def test_the_best_checkpoint_comes_from_the_mirror_too(tmp_path, mirrored, best, compress):
    whole, resumed = mirrored(best, compress)
    again = train(tmp_path, resumed)
    assert again.result["resumed_from"] == 6
    assert again.result["best_checkpoint"] == whole["best_checkpoint"]
    kept = Path(again.result["best_checkpoint"])
    assert kept.name == f"checkpoint-{best}"
    assert again.final("adapter_model.safetensors") == (kept / "adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("lost", "reason"),
    [("state.json", "state.json is absent"), ("optimizer.safetensors", "optimizer.safetensors is absent")],
)
def test_a_run_whose_best_checkpoint_is_lost_is_refused_before_its_first_step(
    tmp_path, mirrored, lost, reason
):
    _, resumed = mirrored(3, False)
    ran = []
    (tmp_path / "mirror" / "checkpoint-3" / lost).unlink()
    with pytest.raises(Failed, match=f"checkpoint-3, cannot be used: {reason}") as caught:
        train(tmp_path, resumed, listen=lambda events, event: ran.append(event.body.type))
    assert caught.value.code == "no-best-checkpoint" and "progress" not in ran
    assert not list((tmp_path / "out").glob("checkpoint-*"))


def test_a_run_whose_best_checkpoint_is_damaged_resumes_from_before_it_to_the_same_bytes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "expert_worker.train.session.Validation.run",
        lambda self, step, stop=None: {"eval_loss": 5.0 + abs(step - 5)},
    )
    changes = resumable({
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": None},
        "machine.save_total_limit": None,
    })  # fmt: skip
    whole = train(tmp_path, changes, output="whole")
    stopped = train(tmp_path, changes)
    shutil.rmtree(stopped.output / "final")
    shutil.rmtree(stopped.output / "checkpoint-7")
    damaged = stopped.output / "checkpoint-5" / "parameters.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    again = train(tmp_path, {**changes, "request.resume": {"from": "newest"}})
    assert again.result["resumed_from"] == 4
    assert again.result["best_checkpoint"].endswith("checkpoint-5")
    assert again.final("adapter_model.safetensors") == whole.final("adapter_model.safetensors")


def test_a_checkpoint_says_how_fast_and_how_large_the_run_was(tmp_path):
    ran = train(tmp_path, resumable({"recipe.saving.steps": 1, "machine.save_total_limit": None}))
    first, last = (
        json.loads((ran.output / f"checkpoint-{step}" / "state.json").read_text())["facts"] for step in (1, 4)
    )
    assert first["tokens_per_second"] is None and last["tokens_per_second"] > 0
    # The kernel counts pages per core, and adds them up with some delay.
    assert 1 << 20 < first["peak_memory_bytes"] <= 1.01 * last["peak_memory_bytes"]


def test_the_time_of_a_resumed_run_is_that_of_all_attempts(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "seconds", property(lambda _: 5000.0))
        train(tmp_path, resumable())
    again = train(tmp_path, {**resumable(), "request.resume": {"from": "newest"}})
    assert 5000.0 < again.result["seconds"] < 5600.0
    # Nothing was left to train, so the speed is that of the steps before.
    last = again.output / f"checkpoint-{again.result['resumed_from']}" / "state.json"
    facts = json.loads(last.read_text())["facts"]
    assert again.result["resumed_from"] == again.result["steps"]
    assert again.result["tokens_per_second"] == facts["tokens_per_second"] > 0


def test_the_disk_of_the_base_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("expert_worker.slow_disk._LONG", 0.0)
    monkeypatch.setattr("expert_worker.slow_disk._bytes_per_second", lambda path: 1e6)
    ran = train(tmp_path)
    assert next(body.message for body in ran.of("warning") if body.code == "slow-disk").startswith(
        f"The disk of the base in {tmp_path / 'base'} reads 1 MB/s"
    )


def test_layers_are_chosen_by_their_names(tmp_path):
    ran = train(tmp_path, {"recipe.adapter.target_modules": ["layers.1.self_attn.q_proj"]})
    assert ran.applied["path"] == "fast"
    assert {name.split(".lora_")[0] for name in load(ran.final("adapter_model.safetensors"))} == {
        "base_model.model.model.layers.1.self_attn.q_proj"
    }


def test_evaluation_best_and_early_stopping(tmp_path):
    ran = train(tmp_path, {
        "recipe.schedule.duration": {"unit": "steps", "value": 40}, "recipe.schedule.kind": "constant",
        "recipe.optimizer.learning_rate": 0.3, "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 2,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 3},
        "machine.save_total_limit": 2,
    })  # fmt: skip
    measured = {body.step: body.metrics["eval_loss"] for body in ran.of("evaluated")}
    best = min(measured, key=measured.get)
    assert ran.result["steps"] == best + 6 < 40
    assert ran.result["best_checkpoint"].endswith(f"checkpoint-{best}")
    assert ran.result["eval_loss"] == measured[best] < measured[best + 6]
    assert json.loads((ran.output / "run.json").read_text())["result"]["eval_loss"] == measured[best]
    assert f"| Validation loss | {measured[best]:.6g} |" in ran.final("README.md").decode()
    kept = sorted(path.name for path in ran.output.glob("checkpoint-*"))
    assert f"checkpoint-{best}" in kept and len(kept) == 2
    assert (
        ran.final("adapter_model.safetensors")
        == (ran.output / f"checkpoint-{best}" / "adapter_model.safetensors").read_bytes()
    )


def test_an_evaluation_leaves_training_its_quiet_budget(tmp_path):
    every_step = {"recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1}
    ran = train(tmp_path, {**every_step, "recipe.schedule.duration": {"unit": "steps", "value": 2}})
    budgets = [body.quiet_budget for body in ran.of("stage") if body.name == "train"]
    assert budgets == [TRAIN_BUDGET] * 3
    evaluations = [body.quiet_budget for body in ran.of("stage") if body.name == "evaluate"]
    assert evaluations == [EVALUATION_BUDGET] * 2


def test_the_best_checkpoint_of_adalora_keeps_its_ranks(tmp_path):
    ran = train(tmp_path, {
        "recipe.adapter.kind": "adalora",
        "recipe.schedule.duration": {"unit": "steps", "value": 20}, "recipe.schedule.kind": "constant",
        "recipe.optimizer.learning_rate": 0.3, "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": None},
        "machine.save_total_limit": None,
    })  # fmt: skip
    best = Path(ran.result["best_checkpoint"])
    last = json.loads((ran.output / "checkpoint-20" / "adapter_config.json").read_text())
    assert json.loads((best / "adapter_config.json").read_text())["rank_pattern"] != last["rank_pattern"]
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert ran.final(name) == (best / name).read_bytes(), name


def test_what_is_scored_after_adalora_has_the_ranks_of_final(tmp_path, monkeypatch):
    """It stops at evaluations of one value, the last of which is the best, between two moves of the ranks."""
    monkeypatch.setattr(
        "expert_worker.train.session.Validation.run", lambda self, step, stop=None: {"eval_loss": 5.0}
    )
    written, in_memory = stage.Finish.write, {}

    def keep(self, resumed_from, peak):
        result = written(self, resumed_from, peak)
        in_memory.update(trained(self._trainer.model))
        return result

    monkeypatch.setattr(stage.Finish, "write", keep)
    ran = train(tmp_path, {
        "recipe.adapter.kind": "adalora",
        "recipe.schedule.duration": {"unit": "steps", "value": 200}, "recipe.schedule.kind": "constant",
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 60},
    })  # fmt: skip
    assert ran.result["steps"] == 61
    kept = json.loads(ran.final("adapter_config.json"))["rank_pattern"]
    left = {name: int((value != 0).sum()) for name, value in in_memory.items() if ".lora_E." in name}
    assert sum(left.values()) == sum(map(sum, kept.values())) < 6 * len(left)


@pytest.mark.parametrize(("sick", "best"), [((1,), 3), ((1, 4), 3), ((2, 3, 4), None)])
def test_an_evaluation_that_is_not_finite_is_never_the_best(tmp_path, sick, best, monkeypatch):
    def losses(self, step, stop=None):
        return {"eval_loss": float("nan") if step in sick else 5.0 + abs(step - 3)}

    monkeypatch.setattr("expert_worker.train.session.Validation.run", losses)
    ran = train(tmp_path, {
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 3},
        "recipe.schedule.duration": {"unit": "steps", "value": 5}, "recipe.saving.steps": 1,
        "machine.save_total_limit": None,
    })  # fmt: skip
    chosen = json.loads((ran.output / "run.json").read_text())["best"]
    assert [chosen["evaluations"][str(step)] for step in sick] == [None] * len(sick)
    assert (chosen["step"], chosen["value"]) == ((3, 5.0) if best else (1, 7.0))
    assert ran.result["eval_loss"] == chosen["value"]
    assert ran.result["steps"] == (5 if best else 4)


def test_a_run_without_a_finite_evaluation_ends_with_its_last_step(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "expert_worker.train.session.Validation.run",
        lambda self, step, stop=None: {"eval_loss": float("inf")},
    )
    ran = train(tmp_path, {
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 3},
    })  # fmt: skip
    chosen = json.loads((ran.output / "run.json").read_text())["best"]
    assert (chosen["step"], chosen["reason"]) == (3, "the last step: no eval_loss was a finite number")
    assert ran.result["eval_loss"] is None and "Validation loss" not in ran.final("README.md").decode()
    (stopped,) = [body.note for body in ran.of("applied") if body.key == "early_stopping"]
    assert stopped == "Stopped early: eval_loss was never a finite number"


def test_a_run_that_stops_at_equal_values_names_the_step_of_the_last_gain(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "expert_worker.train.session.Validation.run",
        lambda self, step, stop=None: {"eval_loss": 6.0 if step == 1 else 5.0},
    )
    ran = train(tmp_path, {
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 2},
        "recipe.schedule.duration": {"unit": "steps", "value": 9},
    })  # fmt: skip
    (stopped,) = [body.note for body in ran.of("applied") if body.key == "early_stopping"]
    assert stopped == (
        "Stopped early: eval_loss has not improved since step 2; "
        "step 4 is the latest with this value, and is used"
    )
    assert ran.result["best_checkpoint"].endswith("checkpoint-4")


def test_running_out_of_memory_halves_the_micro_batch(tmp_path, monkeypatch):
    from expert_worker.train.engine import FastEngine

    plain = train(tmp_path, {"machine.micro_batch": 4})
    original = FastEngine.backward

    def tight(self, batch, scale):
        if len(batch.keys.unique()) and batch.ids.numel() > 60:
            torch.empty(1 << 50, dtype=torch.uint8)
        return original(self, batch, scale)

    monkeypatch.setattr(FastEngine, "backward", tight)
    ran = train(tmp_path, {"machine.micro_batch": 4}, output="tight")
    assert ran.of("recovered")[0].kind == "out_of_memory"
    assert ran.losses == pytest.approx(plain.losses, rel=1e-5)
    state = json.loads((ran.output / "checkpoint-4" / "state.json").read_text())
    assert state["facts"]["micro_batch"] < 4


def test_one_row_that_does_not_fit_is_an_error(tmp_path, monkeypatch):
    from expert_worker.train.engine import FastEngine

    def never(self, batch, scale):
        raise RuntimeError("DefaultCPUAllocator: not enough memory")

    monkeypatch.setattr(FastEngine, "backward", never)
    with pytest.raises(Failed, match="One row alone"):
        train(tmp_path)


def test_the_steps_before_memory_ran_out_are_saved(tmp_path, monkeypatch):
    """Another program took the memory: the run continues where it was."""
    from expert_worker.train.engine import FastEngine

    plain = train(tmp_path, output="plain")
    original, calls = FastEngine.backward, []

    def crowded(self, batch, scale):
        calls.append(1)
        if len(calls) > 6:
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return original(self, batch, scale)

    rare = {"recipe.saving.strategy": "no", "recipe.saving.steps": None}
    monkeypatch.setattr(FastEngine, "backward", crowded)
    with pytest.raises(Failed, match=r"any more; the \d steps until now are saved") as caught:
        train(tmp_path, rare, output="crowded")
    assert caught.value.code == "out-of-memory"
    assert "gradient_checkpointing on, then continue with --resume" in str(caught.value.hint)
    saved = re.search(r"the (\d) steps", str(caught.value))
    assert saved is not None and (tmp_path / "crowded" / f"checkpoint-{saved[1]}" / "state.json").is_file()
    state = json.loads((tmp_path / "crowded" / f"checkpoint-{saved[1]}" / "state.json").read_text())
    assert state["facts"]["micro_batch"] > 1, "what fitted before"
    monkeypatch.setattr(FastEngine, "backward", original)
    smaller = {**rare, "request.resume": {"from": "newest"}, "machine.checkpointing": "full"}
    resumed = train(tmp_path, smaller, output="crowded")
    assert resumed.losses == pytest.approx(plain.losses[int(saved[1]) :], rel=1e-5)


def test_the_steps_before_memory_ran_out_in_an_evaluation_are_saved(tmp_path, monkeypatch):
    from expert_worker.train.engine import FastEngine

    rare = {
        "recipe.saving.strategy": "no",
        "recipe.saving.steps": None,
        "recipe.evaluation.strategy": "steps",
        "recipe.evaluation.steps": 2,
    }
    plain = train(tmp_path, rare, output="plain")
    original, calls = FastEngine.loss, []

    def crowded(self, batch):
        calls.append(1)
        if len(calls) > fitting:
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return original(self, batch)

    fitting = len(plain.of("evaluated"))
    monkeypatch.setattr(FastEngine, "loss", crowded)
    with pytest.raises(Failed, match=r"any more; the \d steps until now are saved") as caught:
        train(tmp_path, rare, output="crowded")
    assert caught.value.code == "out-of-memory" and "--resume" in str(caught.value.hint)
    saved = re.search(r"the (\d) steps", str(caught.value))
    assert saved is not None and (tmp_path / "crowded" / f"checkpoint-{saved[1]}" / "state.json").is_file()
    monkeypatch.setattr(FastEngine, "loss", original)
    resumed = train(tmp_path, {**rare, "request.resume": {"from": "newest"}}, output="crowded")
    assert resumed.losses == pytest.approx(plain.losses[int(saved[1]) :], rel=1e-5)
    repeated = [one for one in plain.of("evaluated") if one.step >= int(saved[1])]
    assert [one.metrics for one in resumed.of("evaluated")] == [
        pytest.approx(one.metrics, rel=1e-5) for one in repeated
    ]


def make_one_step_not_finite(monkeypatch):
    """Both of its micro-batches, so that it is left out."""
    from expert_worker.train.engine import FastEngine

    original, calls = FastEngine.backward, []

    def sick(self, batch, scale):
        calls.append(1)
        loss = original(self, batch, scale)
        return loss * float("nan") if len(calls) in (4, 5) else loss  # The first call is the trial.

    monkeypatch.setattr(FastEngine, "backward", sick)
    return original


def test_steps_that_are_not_finite_are_left_out_and_then_stop_the_run(tmp_path, monkeypatch):
    from expert_worker.train.engine import FastEngine

    original = make_one_step_not_finite(monkeypatch)
    ran = train(tmp_path)
    named = [body for body in ran.of("recovered") if body.kind == "non_finite"]
    assert len(named) == 1 and named[0].step == 2
    quoted = re.findall(r'"([^"]+)"', named[0].detail)
    data = rows()
    learned = [
        " ".join(f"w{id}" for id in data.batch([row])[1].tolist() if id >= 0) for row in range(len(data))
    ]
    assert quoted and all(any(text.startswith(said[:30]) for text in learned) for said in quoted)
    assert ran.result["steps"] == 4

    monkeypatch.setattr(
        FastEngine, "backward", lambda self, batch, scale: original(self, batch, scale) * float("nan")
    )
    with pytest.raises(Failed, match="3 steps in a row") as caught:
        train(tmp_path, output="sick")
    assert caught.value.hint == "Look at alpha and at the rows above."
    assert (tmp_path / "sick" / "checkpoint-3" / "state.json").exists()


def test_longer_needs_extend(tmp_path):
    train(tmp_path)
    longer = {"recipe.schedule.duration": {"unit": "steps", "value": 6}, "request.resume": {"from": "newest"}}
    with pytest.raises(BadInput, match="duration"):
        train(tmp_path, longer)
    assert train(tmp_path, {**longer, "request.extend": True}).result["steps"] == 6


def test_scores_stay_with_the_adapter_that_they_are_of(tmp_path):
    output = train(tmp_path).output
    scores = [output / "evaluation.json", output / "answers.jsonl"]
    for path in scores:
        path.write_text('{"adapter": {"accuracy": 0.5}}')
    on = {"request.resume": {"from": "newest"}}
    train(tmp_path, on)
    assert all(path.exists() for path in scores), "the same adapter was written again"
    train(tmp_path, {**on, "recipe.schedule.duration": {"unit": "steps", "value": 6}, "request.extend": True})
    assert not any(path.exists() for path in scores)


def test_a_run_that_saved_at_its_end_only_trains_longer_from_there(tmp_path):
    saving = {"recipe.saving.strategy": "no", "recipe.saving.steps": None}
    train(tmp_path, saving)
    longer = {"recipe.schedule.duration": {"unit": "steps", "value": 6}, "request.resume": {"from": "newest"}}
    again = train(tmp_path, {**saving, **longer, "request.extend": True})
    assert (again.result["resumed_from"], again.result["steps"]) == (4, 6)


def test_a_run_that_stopped_early_trains_longer_for_as_many_evaluations(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "expert_worker.train.session.Validation.run", lambda self, step, stop=None: {"eval_loss": 5.0 + step}
    )
    changes = {
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": 1, "recipe.saving.steps": 50,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": 2},
        "recipe.schedule.duration": {"unit": "steps", "value": 8},
    }  # fmt: skip
    assert train(tmp_path, changes).result["steps"] == 3
    longer = {"recipe.schedule.duration": {"unit": "steps", "value": 9}, "request.resume": {"from": "newest"}}
    again = train(tmp_path, {**changes, **longer, "request.extend": True})
    assert (again.result["resumed_from"], again.result["steps"]) == (3, 5)
    assert again.result["best_checkpoint"].endswith("checkpoint-1")


@pytest.mark.parametrize(("planned", "used"), [(1, 1), (4, 2)])
def test_a_resumed_run_takes_fewer_rows_at_a_time_and_never_more(tmp_path, planned, used):
    train(tmp_path, {"machine.micro_batch": 2})
    longer = {"recipe.schedule.duration": {"unit": "steps", "value": 5}, "request.resume": {"from": "newest"}}
    again = train(tmp_path, {**longer, "request.extend": True, "machine.micro_batch": planned})
    assert again.applied["micro_batch"] == used
    said = [body.note for body in again.of("applied") if body.key == "micro_batch.resumed"]
    note = "2 rows at a time, as before the run was resumed; the plan has 4"
    assert said == ([] if used == planned else [note])


def test_a_stop_in_the_first_step_does_not_promise_a_checkpoint(tmp_path, monkeypatch):
    original = Events.accumulating

    def stop(self, *arguments, **named):
        original(self, *arguments, **named)
        self.stop.request(terminated=True)

    monkeypatch.setattr(Events, "accumulating", stop)
    with pytest.raises(Interrupted, match="Stopped in the first step; nothing is saved yet"):
        train(tmp_path)
    assert not list((tmp_path / "out").glob("checkpoint-*"))


def test_adalora_takes_its_last_ranks_although_that_step_is_skipped(tmp_path, monkeypatch):
    make_one_step_not_finite(monkeypatch)
    steps = {"recipe.schedule.duration": {"unit": "steps", "value": 3}}
    ran = train(tmp_path, {"recipe.adapter.kind": "adalora", **steps}, must_learn=False)
    assert [body.step for body in ran.of("recovered")] == [2]
    kept = json.loads(ran.final("adapter_config.json"))["rank_pattern"]
    assert sum(map(sum, kept.values())) == 4 * len(kept)


def test_adalora_goes_through_a_step_without_a_token_to_learn(tmp_path, monkeypatch):
    """As rows that another tool tokenized may have it, where a prompt filled a row."""
    ids = list(range(10, 20))
    put_data(monkeypatch, InMemory([[(ids, [-100] * 10)], [(ids, [-100] * 10)], *[[(ids, ids)]] * 4]))
    batch = {"recipe.batch.rows_per_step": 1, "machine.micro_batch": 1}
    steps = {"recipe.schedule.duration": {"unit": "steps", "value": 6}}
    ran = train(tmp_path, {"recipe.adapter.kind": "adalora", **batch, **steps}, must_learn=False)
    assert ran.losses.count(0.0) == 2
    kept = json.loads(ran.final("adapter_config.json"))["rank_pattern"]
    assert sum(map(sum, kept.values())) == 4 * len(kept)


@pytest.mark.parametrize("when", ["never", "during"])
def test_a_base_that_is_replaced_during_training_is_recorded_without_its_digest(tmp_path, when):
    def replace(events, event):
        if event.body.type == "progress" and when == "during":
            config = tmp_path / "base" / "config.json"
            config.write_text(config.read_text() + " ")

    ran = train(tmp_path, listen=replace)
    files = json.loads(ran.final("expert.json"))["base"]["files"]
    said = [body for body in ran.of("warning") if body.code == "base-changed"]
    assert len(said) == (when == "during") and (files["config.json"] is None) == (when == "during")
    assert files["model.safetensors"]["sha256"]
    if said:
        assert "config.json of the base" in said[0].message


@pytest.mark.parametrize(
    ("unit", "steps", "kind", "ends_at"),
    [
        ("epochs", 12, "cosine", "17%"),
        ("epochs", 12, "one_cycle", "12%"),
        ("epochs", 3, "one_cycle", None),
        ("epochs", 2, "cosine", None),
        ("epochs", 12, "constant", None),
        ("steps", 12, "cosine", None),
    ],
)
def test_a_warm_up_that_takes_every_step_of_the_epochs_is_named(tmp_path, unit, steps, kind, ends_at):
    ran = train(tmp_path, {
        "recipe.schedule.duration": {"unit": unit, "value": 1.0 if unit == "epochs" else 3},
        "recipe.schedule.warmup": {"unit": "steps", "value": steps}, "recipe.schedule.kind": kind,
    })  # fmt: skip
    assert ran.result["steps"] == 3
    said = [body.message for body in ran.of("warning") if body.code == "warmup-takes-all"]
    message = f"The warm-up, 12 steps, takes all 3: the learning rate ends at {ends_at} of learning_rate"
    assert said == ([message] if ends_at else [])


@pytest.mark.parametrize(("steps", "every", "said"), [(4, 50, 1), (4, 4, 1), (4, 2, 0), (4, None, 0)])
def test_a_best_checkpoint_of_one_evaluation_is_named(tmp_path, steps, every, said):
    wanted = {"strategy": "steps", "steps": every} if every else {"strategy": "steps", "steps": 1}
    ran = train(tmp_path, {
        "recipe.schedule.duration": {"unit": "steps", "value": steps},
        **{f"recipe.evaluation.{key}": value for key, value in wanted.items()},
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False} if every else None,
    })  # fmt: skip
    found = [body.message for body in ran.of("warning") if body.code == "one-evaluation"]
    assert len(found) == said and all("after the last of 4 steps" in message for message in found)


@pytest.mark.parametrize(
    ("patience", "every", "hint"),
    [
        (4, 1, "Evaluate more often, or set early_stopping_patience to at most 2."),
        (3, 1, "Evaluate more often, or set early_stopping_patience to at most 2."),
        (2, 1, None),
        (1, 2, "Evaluate more often, or remove early_stopping_patience."),
        (2, 4, None),
    ],
)
def test_a_patience_that_no_run_can_reach_is_named(tmp_path, patience, every, hint):
    ran = train(tmp_path, {
        "recipe.schedule.duration": {"unit": "steps", "value": 4},
        "recipe.evaluation.strategy": "steps", "recipe.evaluation.steps": every,
        "recipe.evaluation.best": {"metric": "eval_loss", "greater_is_better": False, "patience": patience},
    })  # fmt: skip
    found = [body for body in ran.of("warning") if body.code == "patience-out-of-reach"]
    assert [body.hint for body in found] == ([hint] if hint else [])
    message = f"early_stopping_patience is {patience}, and the run has {4 // every} evaluations"
    assert all(body.message.startswith(message) for body in found)


@pytest.mark.parametrize(("cycles", "said"), [(3.0, 1), (1.0, 0)])
def test_cycles_of_few_steps_are_named(tmp_path, cycles, said):
    ran = train(tmp_path, {
        "recipe.schedule.duration": {"unit": "steps", "value": 4},
        "recipe.schedule.kind": "cosine_with_restarts", "recipe.schedule.options": {"num_cycles": cycles},
    }, must_learn=False)  # fmt: skip
    found = [body.message for body in ran.of("warning") if body.code == "cycles-too-short"]
    assert len(found) == said


def test_a_schedule_without_a_step_that_learns_is_refused(tmp_path):
    none = {
        "recipe.schedule.duration": {"unit": "epochs", "value": 0.1},
        "recipe.schedule.warmup": {"unit": "steps", "value": 1},
    }
    with pytest.raises(BadInput, match="The only step is warm-up") as caught:
        train(tmp_path, none)
    assert caught.value.code == "warmup-takes-all"
    assert train(tmp_path, {**none, "recipe.schedule.kind": "one_cycle"}).result["steps"] == 1


@pytest.mark.parametrize(("steps", "stop_after", "recorded"), [(8, None, 5), (4, None, 4), (8, 3, 3)])
def test_a_profile_has_the_first_steps_and_where_the_time_went(tmp_path, steps, stop_after, recorded):
    heard, at = {}, [0]

    def listen(events, event):
        if event.body.type == "progress":
            at[0] = event.body.step
            if at[0] == stop_after:
                events.stop.request(terminated=True)
        elif event.body.type == "applied" and event.body.key == "profile":
            heard[at[0]] = event.body.value

    changes = {
        "request.profile": True,
        "recipe.schedule.duration": {"unit": "steps", "value": steps},
    }  # fmt: skip
    with pytest.raises(Interrupted) if stop_after else nullcontext():
        train(tmp_path, changes, listen=listen)
    assert list(heard) == [recorded]
    assert sum(heard[recorded]["share_of_time"].values()) > 0.3
    trace = json.loads((tmp_path / "out" / "profile" / "trace.json").read_text())
    names = [event.get("name", "") for event in trace["traceEvents"]]
    assert sum(name.startswith("Optimizer.step#") for name in names) == recorded
