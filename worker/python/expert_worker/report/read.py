"""A run's records, read for telling: whatever is absent or half-written is left out, never an error."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Run:
    folder: Path
    steps: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    """Warnings, recoveries and checkpoints, in order, each with its `time`."""
    applied: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    told_at: float = 0.0
    ending: dict[str, Any] | None = None
    record: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """The report is written before the event that ends the run."""
        return bool(self.steps) and self.result.get("steps") == self.steps[-1]["step"]

    @property
    def state(self) -> str:
        # A finished run stays so when a later attempt is refused before its first step.
        if self.complete or (self.ending and self.ending["type"] == "finished"):
            return "finished"
        if self.ending is None:
            return "not finished"
        return "stopped" if self.ending.get("exit") in {130, 143} else "failed"

    @property
    def expert(self) -> str:
        return str(self.recipe.get("expert") or self.folder.name)

    @property
    def recipe(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record.get("recipe") or self.plan.get("recipe") or {}
        return found

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.record.get("result") or {}
        return found


def read_run(folder: Path) -> Run:
    run = Run(folder)
    run.record = read_json(folder / "run.json")
    run.plan = read_json(folder / "plan.json")
    run.scores = read_json(folder / "evaluation.json")
    run.cache = _cache(run)
    for event in _events(folder / "events.jsonl"):
        _take(run, event)
    return run


def read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _cache(run: Run) -> dict[str, Any]:
    """The token cache may have been cleaned away since; then the report does without its statistics."""
    root = run.plan.get("machine", {}).get("paths", {}).get("cache")
    key = run.record.get("cache_key")
    return read_json(Path(root) / key / "cache.json") if root and key else {}


def _events(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("body"), dict):
            yield event


def _take(run: Run, event: dict[str, Any]) -> None:
    body = event["body"]
    kind = body.get("type")
    run.told_at = event.get("time", run.told_at)
    if kind == "started":
        _begin_attempt(run, event)
    elif kind == "progress":
        run.steps.append(body)
    elif kind == "evaluated":
        run.evaluations.append(body)
    elif kind == "applied":
        run.applied[body["key"]] = body["value"]
    elif kind in {"warning", "recovered", "checkpoint", "best"}:
        run.notes.append({"time": event.get("time", 0.0), **body})
    elif kind in {"finished", "failed"}:
        run.ending = {"time": event.get("time", 0.0), **body}


def _begin_attempt(run: Run, event: dict[str, Any]) -> None:
    """A new attempt tells again what lies beyond the step it goes on from."""
    last = event["body"].get("resumed_from", 0)
    run.attempts += 1
    run.ending = None
    run.steps = [body for body in run.steps if body["step"] <= last]
    run.evaluations = [body for body in run.evaluations if body["step"] <= last]
    run.notes = [note for note in run.notes if note.get("step", 0) <= last]
    if run.attempts > 1:
        detail = f"Attempt {run.attempts} went on from step {last}."
        run.notes.append({"time": event.get("time", 0.0), "type": "resumed", "step": last, "detail": detail})
