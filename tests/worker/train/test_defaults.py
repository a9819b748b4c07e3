"""What users run, on a tiny base through the whole training stage, token cache included: it learns, a stopped
run ends in the same bytes, and the fast path gives what transformers + peft give."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from defaults import PRESETS, ROOT, Case, Expert, build, cases
from safetensors.torch import load_file

from expert_worker.errors import Interrupted
from expert_worker.events import Events
from expert_worker.events.models import Event
from expert_worker.plan import parse_plan
from expert_worker.train import stage

sys.path.append(str(ROOT / "tests" / "golden"))

from run import place, recorded_at

RECORDED = ROOT / "tests" / "golden" / "defaults.json"
# Of losses between the two paths: both round activations to the format that they compute in.
CLOSE = {"fp32": 1e-5, "bf16": 1e-3, "fp16": 1e-4}


@dataclass
class Run:
    output: Path
    bodies: list[Any]

    @property
    def losses(self) -> list[float]:
        return [body.loss for body in self.bodies if body.type == "progress"]

    @property
    def norms(self) -> list[float]:
        return [body.grad_norm for body in self.bodies if body.type == "progress"]

    def applied(self, key: str) -> Any:
        return next(body.value for body in self.bodies if body.type == "applied" and body.key == key)

    def adapter(self) -> bytes:
        return (self.output / "final" / "adapter_model.safetensors").read_bytes()


class StopAfter:
    """Asks for a stop once a step is done."""

    def __init__(self, events: Events, step: int) -> None:
        self._events, self._step = events, step

    def write(self, event: Event, line: bytes) -> None:
        if event.body.type == "progress" and event.body.step == self._step:
            self._events.stop.request(terminated=True)

    def close(self) -> None:
        """Nothing is open."""


def train(plan: dict[str, Any], stop_after: int | None = None) -> Run:
    events, memory = Events.in_memory()
    if stop_after is not None:
        events.attach(StopAfter(events, stop_after))
    run = Run(Path(plan["machine"]["paths"]["output"]), [])
    try:
        stage.run(parse_plan(json.dumps(plan)), events)
    finally:
        run.bodies = [event.body for event in memory.events]
    return run


def kind(plan: dict[str, Any]) -> str:
    """What decides which code a run passes through."""
    machine, recipe = plan["machine"], plan["recipe"]
    best = recipe["evaluation"]["best"] or {}
    return json.dumps([
        recipe["adapter"]["kind"], recipe["adapter"]["dropout"] > 0, recipe["optimizer"]["name"],
        recipe["base"]["quantization"] in ("int4", "int8"), recipe["base"]["rope_scaling"] is not None,
        recipe["batch"]["packing"], recipe["batch"]["group_by_length"], best.get("metric"),
        machine["dtype"], machine["checkpointing"],
    ])  # fmt: skip


def distinct(found: list[Case], folder: Path) -> dict[str, Expert]:
    """The first of each kind, by name."""
    kept: dict[str, tuple[str, Expert]] = {}
    for case in found:
        expert = build(case, folder / case.name.replace(" ", "-"))
        kept.setdefault(kind(expert.plan()), (case.name, expert))
    return dict(kept.values())


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Expert]:
    return distinct(cases(), tmp_path_factory.mktemp("users"))


@pytest.mark.parametrize("name", [case.name for case in cases()])
def test_it_learns_resumes_to_the_same_bytes_and_agrees_with_peft(
    name: str, experts: dict[str, Expert]
) -> None:
    expert = experts.get(name)
    if expert is None:
        return  # An earlier case takes the same code.
    plan = expert.plan("whole")
    whole = train(plan)
    assert len(whole.losses) == 3 and all(norm > 0 for norm in whole.norms)
    assert whole.applied("path") == "fast"
    trained = load_file(whole.output / "final" / "adapter_model.safetensors")
    assert all(bool(value.any()) for value in trained.values())

    with pytest.raises(Interrupted):
        train(expert.plan("stopped"), stop_after=1)
    resumed = train(expert.plan("stopped", resume=True))
    assert resumed.losses == whole.losses[1:]
    assert resumed.adapter() == whole.adapter()

    plain = expert.plan("plain")
    plain["machine"]["fast_path"] = False
    beside = train(plain)
    assert beside.applied("path") == "plain"
    assert beside.losses == pytest.approx(whole.losses, rel=CLOSE[plan["machine"]["dtype"]])
    if not name.startswith("real "):
        hold_to_recording(name, whole.losses, plan["machine"])


def has_bf16_units() -> bool:
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def hold_to_recording(name: str, losses: list[float], machine: dict[str, Any]) -> None:
    """As tests/golden does: exact where torch and the processor are those of a recording, which is made with
    one thread as `make test` sets it, and close elsewhere. Processors of one model have units for bf16 or
    not, as their virtual machine allows; the recordings are of those that have them."""
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    recorded_so = machine["threads"]["compute"] == 1 and (machine["dtype"] == "fp32" or has_bf16_units())
    if os.environ.get("EXPERT_RECORD_GOLDEN") and recorded_so:
        known.setdefault(place(), {})[name] = losses
        RECORDED.write_text(json.dumps(known, indent=1) + "\n")
    for here in recorded_at(place(), known) if recorded_so else []:
        # Not of an expert whose data has changed since.
        assert losses == here.get(name, losses)
    for recorded in known.values():
        assert losses == pytest.approx(recorded.get(name, losses), rel=CLOSE[machine["dtype"]])


def test_other_rows_give_another_adapter(experts: dict[str, Expert], tmp_path: Path) -> None:
    expert = experts["preset test"]
    rows = expert.folder / "datasets" / "train.jsonl"
    text = rows.read_text()
    one = train(expert.plan("one")).adapter()
    try:
        rows.write_text("".join(reversed(text.splitlines(keepends=True))))
        other = train(expert.plan("other")).adapter()
    finally:
        rows.write_text(text)
    assert one != other


def test_the_list_holds_what_is_shipped() -> None:
    found = [case.name for case in cases()]
    assert sum(name.startswith("preset ") for name in found) == len(PRESETS) == 8
    assert sum(name.startswith("expert-") for name in found) == 8
