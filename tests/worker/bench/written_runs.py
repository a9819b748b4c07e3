"""Records of runs that were never trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from expert_worker.events.models import Event

FIELDS: dict[str, dict[str, Any]] = {
    "started": {"contract": 1, "stage": "train", "pid": 1, "recipe_digest": "a", "resumed_from": 0},
    "stage": {"quiet_budget": 60.0},
    "progress": {
        "total_steps": 9,
        "epoch": 0.5,
        "loss": 1.0,
        "lr": 1e-4,
        "supervised_tokens": 500,
        "memory_allocated": 1,
        "memory_reserved": 1,
    },
}


def event(time: float, kind: str, attempt: int = 1, **body: Any) -> dict[str, Any]:
    return {"time": time, "attempt": attempt, "body": {"type": kind, **FIELDS.get(kind, {}), **body}}


def typed(events: list[dict[str, Any]]) -> list[Event]:
    return [Event.model_validate(it) for it in events]


def step(time: float, number: int, attempt: int = 1, **parts: float) -> dict[str, Any]:
    body = {"seconds": 1.0, "data_wait": 0.0, "transfer": 0.0, "host_launch": 0.9, "device_compute": 0.9}
    tokens = {"tokens": 1000, "tokens_per_second": 1000.0}
    return event(time, "progress", attempt, step=number, **{**body, **tokens, **parts})


def write_run(folder: Path, events: list[dict[str, Any]], device: str = "cpu") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    plan = {"machine": {"device": {"kind": device, "index": 0}}}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "events.jsonl").write_text("".join(json.dumps(it) + "\n" for it in events))
    return folder
