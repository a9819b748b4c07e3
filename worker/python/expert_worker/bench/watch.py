"""Samples a machine, beside a running train or alone, and says what the run waits for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from expert_worker.bench import sample as samples
from expert_worker.bench.attach import Worker, newest_run, record_of, worker_of
from expert_worker.bench.host import Watched, read_machine
from expert_worker.bench.nvml import Gpus, open_gpus
from expert_worker.bench.parts import Spent, spent
from expert_worker.bench.sample import Sample
from expert_worker.bench.verdict import Finding, Seen, findings
from expert_worker.event import Event, Failed, Finished, Progress, Stage
from expert_worker.event_reader import NAME, EventFile, last_attempt
from expert_worker.report.records import Device, PlanView, read_json, view


@dataclass
class Run:
    """The training that is watched: its events so far, and its process while that lives."""

    folder: Path
    record: EventFile
    watched: Watched | None
    events: list[Event] = field(default_factory=list)
    new: list[Event] = field(default_factory=list)

    def read(self, since: float) -> None:
        """Events from before `since` show where the run stands, but are not what was measured."""
        for event in self.record.read():
            self.events.append(event)
            if event.time >= since:
                self.new.append(event)

    @property
    def ended(self) -> bool:
        events = last_attempt(self.events)
        return bool(events) and isinstance(events[-1].body, Finished | Failed)

    @property
    def step(self) -> Progress | None:
        """The newest step that was measured here."""
        return next((it.body for it in reversed(self.new) if isinstance(it.body, Progress)), None)

    @property
    def stage(self) -> str | None:
        return next((it.body.name for it in reversed(self.events) if isinstance(it.body, Stage)), None)

    @property
    def device(self) -> Device:
        return view(PlanView, read_json(self.folder / "plan.json"))[0].machine.device


@dataclass(frozen=True)
class Watch:
    """What a watch gave."""

    began: float
    seconds: float
    interval: float
    gpus: Gpus | None
    why_no_gpu: str | None
    run: Run | None
    samples: tuple[Sample, ...]

    @property
    def spent(self) -> Spent:
        return spent(self.run.new if self.run else ())

    @property
    def findings(self) -> list[Finding]:
        device = self.run.device if self.run else Device()
        step = self.run.step if self.run else None
        on_gpu = self.gpus is not None and device.kind == "cuda"
        return findings(
            Seen(
                samples=self.samples,
                figures=samples.statistics(self.samples),
                spent=self.spent,
                gpu=device.index if on_gpu else None,
                reserved=step.memory_reserved if step and on_gpu else 0,
                cores=os.cpu_count() or 1,
                attached=self.run is not None,
                stage=self.run.stage if self.run else None,
                ended=self.run is not None and self.run.ended,
            )
        )

    def document(self, *, raw: bool) -> dict[str, Any]:
        found = self.findings
        document: dict[str, Any] = {
            "ok": True,
            "began": self.began,
            "seconds": self.seconds,
            "interval": self.interval,
            "gpu": self._gpu(),
            "run": self._run(),
            "statistics": samples.statistics(self.samples),
            "verdict": asdict(found[0]),
            "findings": [asdict(finding) for finding in found],
        }
        return document | ({"samples": [it.as_json() for it in self.samples]} if raw else {})

    def _gpu(self) -> dict[str, Any]:
        if self.gpus is None:
            return {"found": False, "reason": self.why_no_gpu}
        return {"found": True, "driver": self.gpus.driver, "names": self.gpus.names}

    def _run(self) -> dict[str, Any] | None:
        if self.run is None:
            return None
        spent_here = self.spent
        return {
            "folder": str(self.run.folder),
            "device": self.run.device.kind or None,
            "stage": self.run.stage,
            "ended": self.run.ended,
            "steps": len(spent_here.steps),
            "tokens_per_second": spent_here.tokens_per_second,
            "seconds": spent_here.seconds,
            "shares": spent_here.shares,
            "launch_to_compute": spent_here.launch_to_compute,
        }


def find_run(folder: Path | None, *, alone: bool) -> Run | None:
    """The run named, or the newest that trains now; None watches the machine alone."""
    if alone:
        return None
    if folder is not None:
        record = record_of(folder)
        return _run(folder, record, worker_of(folder))
    worker = newest_run()
    return _run(worker.folder, worker.folder / NAME, worker) if worker else None


def _run(folder: Path, record: Path, worker: Worker | None) -> Run:
    return Run(folder, EventFile(record), Watched(worker.pid) if worker else None)


def watch(
    run: Run | None,
    interval: float,
    duration: float,
    stop: threading.Event,
    show: Callable[[Watch], None] = lambda _: None,
) -> Watch:
    """Until the duration is over, the run ends, or somebody stops it."""
    opened = open_gpus()
    gpus = opened if isinstance(opened, Gpus) else None
    began, start = time.time(), time.monotonic()
    taken: list[Sample] = []

    def now() -> Watch:
        reason = None if isinstance(opened, Gpus) else opened
        elapsed = time.monotonic() - start
        return Watch(began, elapsed, interval, gpus, reason, run, tuple(taken))

    # The first reading of a processor counts from an unknown moment; it is taken and dropped.
    _look(0.0, gpus, run, began)
    while not stop.wait(max(0.0, start + (len(taken) + 1) * interval - time.monotonic())):
        taken.append(_look(time.monotonic() - start, gpus, run, began))
        show(now())
        if (run is not None and run.ended) or taken[-1].time + interval / 2 > duration:
            break
    if gpus is not None:
        gpus.close()
    return now()


def _look(at: float, gpus: Gpus | None, run: Run | None, began: float) -> Sample:
    if run is not None:
        run.read(began)
    step = run.step if run is not None else None
    return Sample(
        time=at,
        gpus=tuple(gpus.read()) if gpus is not None else (),
        process=run.watched.read() if run is not None and run.watched is not None else None,
        machine=read_machine(),
        step=step.step if step else None,
        tokens_per_second=step.tokens_per_second if step else None,
    )
