"""A run's records, read for the report.

Missing values are left out. Invalid ones are left out and counted, never an error.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expert_worker.events import models as events
from expert_worker.events.reader import NAME as EVENTS
from expert_worker.events.reader import EventFile
from expert_worker.exit import Exit
from expert_worker.record_reader import Kind, read_json, read_record
from expert_worker.recorded import CacheRecord, EvaluationResult, PlanRecord, Recipe, RunRecord, TrainResult
from expert_worker.report.series import Steps
from expert_worker.run_scores import SCORES

MOST_NOTES = 200
MOST_CHECKPOINTS = 20
MOST_EVALUATIONS = 10_000
_MOST_SETTINGS = 1000
_STOPPED = frozenset({Exit.INTERRUPTED, Exit.TERMINATED})

Ending = events.Finished | events.Failed
_CACHE_KEY = re.compile(r"[0-9a-f]{32}|foreign-[0-9a-f]{24}")


@dataclass(frozen=True)
class Resumed:
    attempt: int
    step: int


Note = events.WarningLine | events.Recovered | events.Checkpoint | events.Best | Resumed


@dataclass(frozen=True)
class Noted:
    time: float
    what: Note


@dataclass
class Run:
    folder: Path
    steps: Steps = field(default_factory=Steps)
    evaluations: deque[events.Evaluated] = field(default_factory=lambda: deque(maxlen=MOST_EVALUATIONS))
    notes: deque[Noted] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    """The newest warnings, recoveries and resumptions."""
    checkpoints: deque[Noted] = field(default_factory=lambda: deque(maxlen=MOST_CHECKPOINTS))
    notes_in_all: int = 0
    applied: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    last_time: float = 0.0
    ending: Ending | None = None
    ended_at: float = 0.0
    reached: int = 0
    """The last step of which there is an event, be it that the step was left out."""
    record: RunRecord = field(default_factory=RunRecord)
    recorded_at: float = 0.0
    """When `run.json` was written."""
    plan: PlanRecord = field(default_factory=PlanRecord)
    cache: CacheRecord = field(default_factory=CacheRecord)
    scores: EvaluationResult | None = None
    scored_at: float = 0.0
    """When `evaluation.json` was written."""
    left_out: dict[str, int] = field(default_factory=dict)
    """By file: how many lines or values do not fit."""

    @property
    def complete(self) -> bool:
        """Whether `run.json` has the result of all steps: the report is written before the event that ends
        the run, and a record of events that was cut has no such event. An older `run.json` is that of the run
        before it was extended."""
        if self.result.steps is None or self.reached > self.result.steps:
            return False
        return self.reached == self.result.steps or self.recorded_at >= self.last_time

    @property
    def unrecorded(self) -> int:
        """Steps of a finished run that have no event: nobody knows what they were like."""
        return self.result.steps - self.reached if self.complete and self.result.steps else 0

    @property
    def state(self) -> str:
        # A finished run stays so when a later attempt is refused before its first step.
        if self.complete or isinstance(self.ending, events.Finished):
            return "finished"
        return self.ended_as

    @property
    def ended_as(self) -> str:
        """How the last attempt ended, whatever the run came to before it."""
        if isinstance(self.ending, events.Failed):
            return "stopped" if self.ending.exit in _STOPPED else "failed"
        return "not finished" if self.ending is None else "finished"

    @property
    def expert(self) -> str:
        return self.recipe.expert or self.folder.name

    @property
    def base_name(self) -> str:
        return self.recipe.base.name or "an unknown base"

    @property
    def recipe(self) -> Recipe:
        return self.record.recipe or self.plan.recipe or Recipe()

    @property
    def result(self) -> TrainResult:
        return self.record.result or TrainResult()


def read_run(folder: Path) -> Run:
    run = Run(folder)
    run.record = _document(run, "run.json", RunRecord) or RunRecord()
    with suppress(OSError):
        run.recorded_at = (folder / "run.json").stat().st_mtime
    run.plan = _document(run, "plan.json", PlanRecord) or PlanRecord()
    run.scores = _document(run, SCORES, EvaluationResult)
    with suppress(OSError):
        run.scored_at = (folder / SCORES).stat().st_mtime
    if (cache := _cache_folder(run)) is not None:
        # The token cache may have been removed since.
        run.cache, _ = read_record(CacheRecord, read_json(cache / "cache.json"))
    file = EventFile(folder / EVENTS)
    for event in file.read(ended=True):
        _take(run, event)
    if file.left_out:
        run.left_out[EVENTS] = file.left_out
    return run


def _cache_folder(run: Run) -> Path | None:
    """Rows of another tool are checked and copied: the copy is below the worker's home."""
    key = run.record.cache_key
    if run.plan.machine is None or key is None or not _CACHE_KEY.fullmatch(key):
        return None
    paths = run.plan.machine.paths
    foreign = key.startswith("foreign-")
    root = paths.home if foreign else paths.cache
    if not root or "\0" in root:
        return None
    return Path(root, "foreign", key) if foreign else Path(root, key)


def _document(run: Run, name: str, kind: type[Kind]) -> Kind | None:
    document = read_json(run.folder / name)
    found, left_out = read_record(kind, document)
    if document is None and (run.folder / name).is_file():
        left_out = 1
    if left_out:
        run.left_out[name] = left_out
    return found if document is not None else None


def _take(run: Run, event: events.Event) -> None:
    body = event.body
    run.last_time = event.time
    match body:
        case events.Progress():
            run.steps.add(body)
            run.reached = body.step
        case events.Started():
            _begin_attempt(run, event.time, body)
        case events.Evaluated():
            # A kill before the checkpoint has it repeats an evaluation.
            if run.evaluations and run.evaluations[-1].step == body.step > 0:
                run.evaluations.pop()
            run.evaluations.append(body)
        case events.Applied():
            if len(run.applied) < _MOST_SETTINGS:
                run.applied[body.key] = body.value
        case events.Checkpoint():
            run.checkpoints.append(Noted(event.time, body))
        case events.Best():
            if body.step not in {it.what.step for it in run.checkpoints if isinstance(it.what, events.Best)}:
                run.checkpoints.append(Noted(event.time, body))
        case events.WarningLine() | events.Recovered():
            _note(run, Noted(event.time, body))
            if isinstance(body, events.Recovered) and body.kind == "non_finite":
                run.reached = max(run.reached, body.step)
        case events.Finished() | events.Failed():
            run.ending, run.ended_at = body, event.time


def _begin_attempt(run: Run, time: float, body: events.Started) -> None:
    """A new attempt repeats the steps after the one that it resumes from."""
    last = body.resumed_from
    run.attempts += 1
    run.ending = None
    run.steps.drop_after(last)
    run.reached = min(run.reached, last)
    while run.evaluations and run.evaluations[-1].step > last:
        run.evaluations.pop()
    _drop_after(run.checkpoints, last)
    run.notes_in_all -= _drop_after(run.notes, last)
    if run.attempts > 1:
        _note(run, Noted(time, Resumed(run.attempts, last)))


def _drop_after(notes: deque[Noted], step: int) -> int:
    kept = [noted for noted in notes if _step(noted.what) <= step]
    dropped = len(notes) - len(kept)
    notes.clear()
    notes.extend(kept)
    return dropped


def _note(run: Run, noted: Noted) -> None:
    run.notes.append(noted)
    run.notes_in_all += 1


def _step(note: Note) -> int:
    return 0 if isinstance(note, events.WarningLine) else note.step
