"""Forged and odd lines in a run's records: left out of the report, never an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt

DEEP: Any = json.loads("[" * 500 + "]" * 500)


def line(body: Any, **more: Any) -> str:
    return json.dumps({"time": 1_790_000_000.0, "attempt": 1, "body": body, **more})


STEP = {"type": "progress", "step": 3, "total_steps": 9, "epoch": 0.1, "loss": 1.0, "lr": 1e-4, "tokens": 8}
EVENTS = {
    "a time that is not a number": line(STEP, time=float("nan")),
    "a time far off": line(STEP, time=1e300),
    "a time before all": line(STEP, time=-1e18),
    "a time in text": line(STEP, time="now"),
    "a step in text": line({**STEP, "step": "3"}),
    "a step that is null": line({**STEP, "step": None}),
    "a step without a number": line({"type": "progress"}),
    "a loss in text": line({**STEP, "loss": "low"}),
    "a loss that is not a number": line({**STEP, "loss": float("nan")}),
    "a step of 10^400": line({**STEP, "step": 10**400}),
    "applied without a value": line({"type": "applied", "key": "x"}),
    "applied without a key": line({"type": "applied", "value": 1}),
    "a key that is a list": line({"type": "applied", "key": [1], "value": 1}),
    "metrics that are a list": line({"type": "evaluated", "step": 3, "metrics": [1], "seconds": 1}),
    "metrics of text": line({"type": "evaluated", "step": 3, "metrics": {"eval_loss": "x"}}),
    "a failure without words": line({"type": "failed"}),
    "a start without a stage": line({"type": "started", "resumed_from": "x"}),
    "a type that is a list": line({"type": ["progress"]}),
    "a body that is a list": line([1, 2]),
    "an event that is a list": "[1, 2]",
    "deep": json.dumps({"time": 1.0, "attempt": 1, "body": {"type": "applied", "key": "x", "value": DEEP}}),
    "deeper than the reader": '{"body": ' + "[" * 100_000,
    "a lone surrogate": line({"type": "warning", "code": "x", "message": "\ud800", "hint": None}),
}
FILES = {
    "a recipe without an adapter": ("run.json", {"recipe": {"adapter": None}}),
    "a record of numbers": ("run.json", {"recipe": 5, "result": 7, "best": 9, "applied": 1}),
    "a plan of lists": ("plan.json", {"recipe": [], "machine": []}),
    "scores of text": ("evaluation.json", {"base": "x", "adapter": [], "rows": None, "tags": {"a": 1}}),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else EVENTS:
        yield Attempt(name, partial(of_event, name))
    for name in () if quick else FILES:
        yield Attempt(name, partial(of_file, name))


def of_event(name: str, folder: Path) -> None:
    run = sample(folder)
    with (run / "events.jsonl").open("a") as events:
        events.write(EVENTS[name] + "\n")
    report(run)


def of_file(name: str, folder: Path) -> None:
    run = sample(folder)
    file, document = FILES[name]
    (run / file).write_text(json.dumps(document))
    report(run)


def sample(folder: Path) -> Path:
    world.inside("sample_run", str(folder))
    return folder / "out"


def report(run: Path) -> None:
    found = world.inside("report", str(run))
    assert found.get("bytes", 0) > 1000 or found.get("refused"), found
    world.inside("report_all", str(run.parent))


AREA = Area("report_records", "report: forged or odd records", attempts)
