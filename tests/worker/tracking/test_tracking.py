"""Trackers: the right curves under the right names, and no fault of theirs reaches training."""

import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import torch.utils.tensorboard  # noqa: F401  (slow to import: not in the thread that a test waits for)
from plans import example_plan
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from expert_worker.events import Events
from expert_worker.events.models import Evaluated, Heartbeat, Progress
from expert_worker.events.sinks import Record
from expert_worker.tracking import Trackers, start_trackers
from expert_worker.tracking.trackers import Point, point


def progress(step: int, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "step": step,
        "total_steps": 10,
        "epoch": 0.5,
        "loss": 2.0 + step,
        "lr": 1e-4,
        "tokens": 100,
        "supervised_tokens": 40,
        "tokens_per_second": 50.0,
        "seconds": 2.0,
        "data_wait": 0.0,
        "memory_allocated": 3_000_000_000,
        "memory_reserved": 4_000_000_000,
    }
    return values | changes


def test_the_names_of_the_curves() -> None:
    found = point(Progress(**progress(1, gpu_util=97.0, grad_norm=0.5)), every=1)
    assert found is not None and found.values == {
        "Loss/train": 3.0,
        "LR": 1e-4,
        "Throughput/tokens_per_sec": 50.0,
        "Memory/allocated_gb": 3.0,
        "GPU/utilization": 97.0,
        "Gradient/norm": 0.5,
    }
    scored = point(Evaluated(step=3, metrics={"eval_loss": 1.5, "eval_accuracy": 0.5}, seconds=1.0), every=7)
    assert scored == Point(3, {"Loss/eval": 1.5, "Eval/accuracy": 0.5})
    assert point(Heartbeat(ticks=1), every=1) is None


def test_logging_steps_thin_the_curve_but_never_its_end() -> None:
    drawn = [step for step in range(1, 11) if point(Progress(**progress(step)), every=4)]
    assert drawn == [4, 8, 10]


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    reader = EventAccumulator(str(folder))
    reader.Reload()
    return {tag: [(s.step, s.value) for s in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def test_tensorboard_reads_what_was_said(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"machine.logging": {"steps": 1, "trackers": ["tensorboard"]}})
    events, _ = Events.in_memory()
    trackers = start_trackers(plan, events)
    for step in (1, 2, 3):
        events.progress(**progress(step, gpu_util=50.0))
    events.evaluated(3, {"eval_loss": 1.5}, 0.1)
    trackers.close()
    read = curves(tmp_path / "out" / "tensorboard")
    assert read["Loss/train"] == [(1, 3.0), (2, 4.0), (3, 5.0)]
    assert read["Loss/eval"] == [(3, 1.5)]
    assert {"LR", "Throughput/tokens_per_sec", "Memory/allocated_gb", "GPU/utilization"} <= set(read)


def test_logging_steps_decide_what_tensorboard_gets(tmp_path: Path) -> None:
    plan = example_plan(tmp_path, {"machine.logging.steps": 4, "machine.logging.trackers": ["tensorboard"]})
    events, _ = Events.in_memory()
    trackers = start_trackers(plan, events)
    for step in range(1, 11):
        events.progress(**progress(step))
    trackers.close()
    assert [step for step, _ in curves(tmp_path / "out" / "tensorboard")["Loss/train"]] == [4, 8, 10]


def test_a_resumed_run_replaces_the_steps_that_it_repeats(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    for resumed_from, steps, shift in ((0, (1, 2, 3), 0.0), (1, (2, 3, 4), 10.0)):
        events, _ = Events.in_memory()
        trackers = start_trackers(plan, events, resumed_from)
        for step in steps:
            events.progress(**progress(step, loss=step + shift))
        trackers.close()
    assert curves(tmp_path / "out" / "tensorboard")["Loss/train"] == [
        (1, 1.0),
        (2, 12.0),
        (3, 13.0),
        (4, 14.0),
    ]


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_its_curves_again(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    for steps, shift in (((1, 2, 3), 0.0), ((1, 2), 10.0)):
        events, _ = Events.in_memory()
        trackers = start_trackers(plan, events)
        if not shift:
            events.evaluated(0, {"eval_loss": 9.0}, 0.1)
        for step in steps:
            events.progress(**progress(step, loss=step + shift))
        trackers.close()
    read = curves(tmp_path / "out" / "tensorboard")
    assert read["Loss/train"] == [(1, 11.0), (2, 12.0)] and not read.get("Loss/eval")


class Broken:
    def __init__(self, after: int) -> None:
        self.left = after

    def log(self, point: Point) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("the server is gone\nwith details")

    def close(self) -> None:
        raise AssertionError("a broken tracker is not called again")


class Working:
    def __init__(self) -> None:
        self.points: list[Point] = []
        self.closed = False

    def log(self, point: Point) -> None:
        self.points.append(point)

    def close(self) -> None:
        self.closed = True


def test_a_dead_tracker_is_reported_once_and_the_others_continue() -> None:
    events, memory = Events.in_memory()
    working = Working()
    trackers = Trackers([("broken", lambda: Broken(1)), ("working", lambda: working)], events)
    events.attach(trackers)
    for step in range(1, 6):
        events.progress(**progress(step))
    trackers.close()
    assert [p.step for p in working.points] == [1, 2, 3, 4, 5] and working.closed
    recovered = [e.body for e in memory.events if e.body.type == "recovered"]
    assert len(recovered) == 1 and recovered[0].kind == "tracker" and recovered[0].step == 2
    assert recovered[0].detail.startswith("broken stopped (the server is gone)")


@pytest.mark.parametrize("fault", [OSError("no disk"), SystemExit(1), ImportError("no module")])
def test_a_tracker_that_cannot_start_is_reported(fault: BaseException) -> None:
    def refuse() -> Working:
        raise fault

    events, memory = Events.in_memory()
    trackers = Trackers([("mute", refuse)], events)
    events.attach(trackers)
    events.progress(**progress(1))
    trackers.close()
    assert [e.body.kind for e in memory.events if e.body.type == "recovered"] == ["tracker"]


def test_a_tracker_that_hangs_delays_nothing(monkeypatch) -> None:
    monkeypatch.setattr("expert_worker.tracking.trackers._LAST_WORDS", 0.05)
    monkeypatch.setattr("expert_worker.tracking.trackers._ROOM", 8)
    gate = threading.Event()

    class Hanging(Working):
        def log(self, point: Point) -> None:
            gate.wait(30)

    events, memory = Events.in_memory()
    trackers = Trackers([("hanging", Hanging)], events)
    events.attach(trackers)
    for step in range(1, 100):
        events.progress(**progress(step, total_steps=1000))
    trackers.close()
    gate.set()
    assert sum(e.body.type == "progress" for e in memory.events) == 99


def fake_wandb(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {"logged": []}

    class Run:
        def log(self, values: dict[str, float], step: int) -> None:
            seen["logged"].append((step, values["Loss/train"]))

        def finish(self) -> None:
            seen["finished"] = True

    def init(**options: Any) -> Run:
        seen["options"] = options
        return Run()

    module = types.SimpleNamespace(init=init, Settings=lambda **options: options)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return seen


def test_wandb_resumes_the_same_run(tmp_path: Path, monkeypatch) -> None:
    seen = fake_wandb(monkeypatch)
    plan = example_plan(tmp_path, {"machine.logging": {"steps": 1, "trackers": ["wandb"]}})
    output, identities = Path(plan.machine.paths.output), list[str]()
    for step in (1, 2, 1):
        if len(identities) == 2:
            # As `train --fresh` does it.
            (output / "events.jsonl").unlink()
        record = Record(output / "events.jsonl")
        events = Events([], record, clock=lambda: 1e9 + len(identities))
        events.begin(step - 1)
        trackers = start_trackers(plan, events, step - 1)
        events.progress(**progress(step))
        trackers.close()
        record.close()
        identities.append(seen["options"]["id"])
    assert seen["logged"] == [(1, 3.0), (2, 4.0), (1, 3.0)] and seen["finished"]
    assert identities[0] == identities[1] != identities[2] and seen["options"]["resume"] == "allow"
    assert seen["options"]["config"]["expert"] == "expert-sample"

    # As where another node of a cluster continues it.
    moved = plan.machine.paths.model_copy(update={"output": str(output.rename(tmp_path / "moved"))})
    plan = plan.model_copy(update={"machine": plan.machine.model_copy(update={"paths": moved})})
    trackers = start_trackers(plan, Events([]), 1)
    trackers.close()
    assert seen["options"]["id"] == identities[2]


def test_the_wandb_project_is_that_of_the_environment(tmp_path: Path, monkeypatch) -> None:
    seen = fake_wandb(monkeypatch)
    plan = example_plan(tmp_path, {"machine.logging": {"steps": 1, "trackers": ["wandb"]}})
    for variable, project in ((None, "expert-cli"), ("mine", "mine"), ("", "expert-cli")):
        monkeypatch.delenv("WANDB_PROJECT", raising=False)
        if variable is not None:
            monkeypatch.setenv("WANDB_PROJECT", variable)
        start_trackers(plan, Events.in_memory()[0]).close()
        assert seen["options"]["project"] == project


def test_wandb_that_is_not_installed_says_how_to_get_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    plan = example_plan(tmp_path, {"machine.logging": {"steps": 1, "trackers": ["wandb"]}})
    events, memory = Events.in_memory()
    start_trackers(plan, events).close()
    assert "expert-worker[wandb]" in memory.events[-1].body.detail
