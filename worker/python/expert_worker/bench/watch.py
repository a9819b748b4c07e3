"""Sample GPU, processor and memory beside a running train, and say what it waits for."""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from expert_worker.bench.attach import Worker, newest_run, record_of, worker_of
from expert_worker.bench.breakdown import Breakdown, breakdown
from expert_worker.bench.nvml import VISIBLE, Gpus, open_gpus
from expert_worker.bench.output import (
    bar,
    demand_writable,
    number,
    positive_seconds,
    size,
    write_file,
    write_json,
)
from expert_worker.bench.output import table as text_table
from expert_worker.bench.sample import ProcessTree, Sample, Summary, read_machine, series, statistics
from expert_worker.bench.verdict import Finding, Observation, findings
from expert_worker.events.models import Event, Failed, Finished, Progress, Stage
from expert_worker.events.reader import NAME, EventFile, last_attempt
from expert_worker.processor import available_cores
from expert_worker.record_reader import read_json, read_record
from expert_worker.recorded import Device, PlanRecord
from expert_worker.report.charts import Line, curve
from expert_worker.report.html import charts, document, heading, section, table
from expert_worker.report.numbers import duration
from expert_worker.terminal import stdout_columns, visible, write_prose, write_stderr, write_stdout

_IN_BYTES = frozenset({"memory_used", "resident", "memory_available", "swap_used"})
# Not in the table: constants, and counts that nobody compares.
_NOT_SHOWN = frozenset({"memory_total", "power_limit_watts", "sm_clock_max_mhz", "processes", "threads"})
# Columns of the table, where a terminal has no room for all.
_LEFT_OUT_FIRST = ("p50", "min", "p95", "max")
# Title, unit, name of the value, divisor.
_GPU_CHARTS = (
    ("Utilization", "%", "utilization", 1.0),
    ("Memory", "GiB", "memory_used", 2.0**30),
    ("Temperature", "°C", "temperature", 1.0),
    ("Power", "W", "power_watts", 1.0),
    ("Clock", "MHz", "sm_clock_mhz", 1.0),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", type=Path, metavar="DIR", help="the run to watch (the newest that trains)")
    which.add_argument("--alone", action="store_true", help="watch the machine, whatever trains on it")
    parser.add_argument(
        "--interval", type=positive_seconds, default=1.0, metavar="S", help="seconds between samples (1)"
    )
    parser.add_argument(
        "--duration", type=positive_seconds, default=60.0, metavar="S", help="seconds in all (60)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it as JSON, raw samples too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as an HTML page")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--quiet", action="store_true", help="no live view")


def run_command(given: argparse.Namespace) -> int:
    demand_writable(given.output)
    demand_writable(given.plot)
    attached = find_run(given.run, alone=given.alone)
    _announce(attached, given)
    result = _watch_with_view(attached, given)
    if given.output:
        write_json(given.output, result.document(raw=True))
    if given.plot:
        write_file(given.plot, plot(result))
    if given.json:
        write_stdout(json.dumps(result.document(raw=False)))
    else:
        write_prose(report(result, stdout_columns()))
    return 0


def _announce(attached: WatchedRun | None, given: argparse.Namespace) -> None:
    if given.quiet or given.json:
        return
    if attached is not None:
        write_stderr(f"watching the run in {attached.folder}")
        if attached.process is None:
            write_stderr("its process does not run (any more): only its record is read")
    elif not given.alone:
        write_stderr("no training runs here: watching the machine alone (--run DIR names a run)")


def _watch_with_view(attached: WatchedRun | None, given: argparse.Namespace) -> WatchResult:
    stop = threading.Event()
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, lambda *_: stop.set())
    console = Console(stderr=True)
    with ExitStack() as stack:
        if console.is_terminal and not (given.quiet or given.json):
            view = stack.enter_context(LiveView(console, given.duration))
            return watch(attached, given.interval, given.duration, stop, view.show)
        return watch(attached, given.interval, given.duration, stop)


@dataclass
class WatchedRun:
    """The training that is watched: its events so far, and its process while that lives."""

    folder: Path
    record: EventFile
    process: ProcessTree | None
    # Its CUDA_VISIBLE_DEVICES.
    visible: str | None = None
    events: list[Event] = field(default_factory=list)
    new: list[Event] = field(default_factory=list)

    def read(self, since: float) -> None:
        """Events from before `since` show the state of the run, but are not measured."""
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
        machine = read_record(PlanRecord, read_json(self.folder / "plan.json"))[0].machine
        return machine.device if machine else Device()


@dataclass(frozen=True)
class WatchResult:
    """Samples and events from one watch, so far or in all."""

    began: float
    seconds: float
    interval: float
    gpus: Gpus | None
    why_no_gpu: str | None
    run: WatchedRun | None
    samples: tuple[Sample, ...]

    @property
    def breakdown(self) -> Breakdown:
        return breakdown(self.run.new if self.run else ())

    @property
    def findings(self) -> list[Finding]:
        device = self.run.device if self.run else Device()
        step = self.run.step if self.run else None
        on_gpu = self.gpus is not None and device.kind == "cuda"
        visible = self.run.visible if self.run else None
        return findings(
            Observation(
                samples=self.samples,
                figures=statistics(self.samples),
                breakdown=self.breakdown,
                gpu=self.gpus.number_of(device.index or 0, visible) if self.gpus and on_gpu else None,
                reserved=step.memory_reserved if step and on_gpu else 0,
                cores=available_cores(),
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
            "statistics": {name: asdict(it) for name, it in statistics(self.samples).items()},
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
        parts = self.breakdown
        return {
            "folder": str(self.run.folder),
            "device": self.run.device.kind or None,
            "stage": self.run.stage,
            "ended": self.run.ended,
            "steps": len(parts.steps),
            "tokens_per_second": parts.tokens_per_second,
            "seconds": parts.seconds,
            "shares": parts.shares,
            "launch_to_compute": parts.launch_to_compute,
        }


def find_run(folder: Path | None, *, alone: bool) -> WatchedRun | None:
    """The run named, or the newest that trains now; None watches the machine alone."""
    if alone:
        return None
    if folder is not None:
        record = record_of(folder)
        return _watched_run(folder, record, worker_of(folder))
    worker = newest_run()
    return _watched_run(worker.folder, worker.folder / NAME, worker) if worker else None


def _watched_run(folder: Path, record: Path, worker: Worker | None) -> WatchedRun:
    process = ProcessTree(worker.pid) if worker else None
    return WatchedRun(folder, EventFile(record), process, process.variable(VISIBLE) if process else None)


def watch(
    run: WatchedRun | None,
    interval: float,
    duration: float,
    stop: threading.Event,
    show: Callable[[WatchResult], None] = lambda _: None,
) -> WatchResult:
    """Takes samples until the duration is over, the run ends, or `stop` is set."""
    opened = open_gpus()
    gpus = opened if isinstance(opened, Gpus) else None
    began, start = time.time(), time.monotonic()
    taken: list[Sample] = []

    def now() -> WatchResult:
        reason = None if isinstance(opened, Gpus) else opened
        elapsed = time.monotonic() - start
        return WatchResult(began, elapsed, interval, gpus, reason, run, tuple(taken))

    # cpu_percent() counts from its last call, so the first reading is dropped.
    _take_sample(0.0, gpus, run, began)
    while not stop.wait(max(0.0, start + (len(taken) + 1) * interval - time.monotonic())):
        taken.append(_take_sample(time.monotonic() - start, gpus, run, began))
        show(now())
        if (run is not None and run.ended) or taken[-1].time + interval / 2 > duration:
            break
    if gpus is not None:
        gpus.close()
    return now()


def _take_sample(at: float, gpus: Gpus | None, run: WatchedRun | None, began: float) -> Sample:
    if run is not None:
        run.read(began)
    step = run.step if run is not None else None
    return Sample(
        time=at,
        gpus=tuple(gpus.read()) if gpus is not None else (),
        process=run.process.read() if run is not None and run.process is not None else None,
        machine=read_machine(),
        step=step.step if step else None,
        tokens_per_second=step.tokens_per_second if step else None,
    )


def report(result: WatchResult, columns: int | None = None) -> str:
    """The table of statistics leaves out columns until it fits."""
    parts = [_heading(result), _statistics(result, columns), _shares(result)]
    for place, finding in enumerate(result.findings):
        word = "verdict" if place == 0 else "also"
        parts.append(f"{word}: {finding.message}\n  {finding.advice}")
    return "\n\n".join(part for part in parts if part)


def _heading(result: WatchResult) -> str:
    gpu = (
        f"{', '.join(result.gpus.names)} (driver {result.gpus.driver})" if result.gpus else result.why_no_gpu
    )
    what = f"the run in {result.run.folder}" if result.run else "this machine; no training runs"
    lines = [f"watched {what}: {len(result.samples)} samples in {result.seconds:.1f} s", f"GPU: {gpu}"]
    if result.gpus is None:
        lines.append("     measured on the CPU's side only")
    return "\n".join(lines)


def _statistics(result: WatchResult, columns: int | None) -> str:
    shown = _shown(statistics(result.samples))
    if not shown:
        return ""
    text = ""
    for count in range(len(_LEFT_OUT_FIRST) + 1):
        left_out = _LEFT_OUT_FIRST[:count]
        heads = [it.name for it in fields(Summary) if it.name not in left_out]
        rows = [
            [name, *(_value(name, getattr(figures, head)) for head in heads)]
            for name, figures in shown.items()
        ]
        text = text_table(["", *heads], rows)
        has_room = columns is None or max(map(len, text.splitlines())) <= columns
        if left_out:
            text += f"\nnot shown for lack of width: {', '.join(left_out)} (--json has all)"
        if has_room:
            break
    return text


def _shown(figures: dict[str, Summary]) -> dict[str, Summary]:
    return {name: it for name, it in figures.items() if name.rpartition(".")[2] not in _NOT_SHOWN}


def _value(name: str, value: float) -> str:
    return size(value) if name.rpartition(".")[2] in _IN_BYTES else number(value)


def _shares(result: WatchResult) -> str:
    parts = result.breakdown
    if not parts.steps:
        return ""
    rows = [
        f"{name:<21}{bar(share, 30)} {share:6.1%}  {parts.seconds[name]:8.2f} s"
        for name, share in parts.shares.items()
    ]
    speed = f"{parts.tokens_per_second:,.0f} tokens/s" if parts.tokens_per_second else ""
    note = _launching(result)
    return "\n".join([f"{len(parts.steps)} steps, {speed}", *rows, *([note] if note else [])])


def _launching(result: WatchResult) -> str:
    ratio = result.breakdown.launch_to_compute
    if result.run is None or ratio is None:
        return ""
    if result.run.device.kind != "cuda":
        return "on a CPU launching and computing are the same time"
    return f"the host took {ratio:.0%} of the device's time to issue its work"


class LiveView:
    """The state of the run, redrawn at each sample on a terminal."""

    def __init__(self, console: Console, duration: float) -> None:
        self._duration = duration
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, result: WatchResult) -> None:
        self._live.update(Group(*(Text(visible(line)) for line in self._lines(result))), refresh=True)

    def _lines(self, result: WatchResult) -> list[str]:
        last = result.samples[-1]
        lines = [f"{result.seconds:5.0f} of {self._duration:.0f} s  (Ctrl-C ends it with what there is)"]
        for gpu in last.gpus:
            used, total = gpu.memory_used or 0, gpu.memory_total or 1
            lines.append(_gauge(f"GPU {gpu.index}", gpu.utilization or 0.0, 100.0, "%"))
            lines.append(_gauge("  memory", used / 2**30, total / 2**30, " GiB"))
            extra = [f"{gpu.temperature:.0f} °C" if gpu.temperature is not None else ""]
            extra += [f"{gpu.power_watts:.0f} W" if gpu.power_watts is not None else ""]
            extra += [f"{gpu.sm_clock_mhz:.0f} MHz" if gpu.sm_clock_mhz is not None else "", *gpu.slowed_by]
            lines.append("            " + "  ".join(part for part in extra if part))
        lines.append(_gauge("CPU", last.machine.cpu_percent, 100.0, "%"))
        used_memory = last.machine.memory_total - last.machine.memory_available
        lines.append(_gauge("memory", used_memory / 2**30, last.machine.memory_total / 2**30, " GiB"))
        if last.process is not None:
            lines.append(f"{'run':<12}{last.process.cpu_percent:.0f}% CPU, {size(last.process.resident)}")
        if last.step is not None:
            lines.append(f"{'step':<12}{last.step}, {last.tokens_per_second or 0:,.0f} tokens/s")
        if result.breakdown.steps:
            lines += [
                f"  {name:<22}{bar(share, 24)} {share:.0%}" for name, share in result.breakdown.shares.items()
            ]
        return [*lines, result.findings[0].message]


def _gauge(name: str, value: float, top: float, unit: str) -> str:
    return f"{name:<12}{bar(value / top if top else 0.0, 30)} {number(value)} of {number(top)}{unit}"


def plot(result: WatchResult) -> str:
    found = series(result.samples)

    def drawn(title: str, unit: str, names: Sequence[tuple[str, str]], divisor: float = 1.0) -> str:
        lines = [
            Line(label, [(time, value / divisor) for time, value in found.get(name, ())], hue=hue % 2)
            for hue, (label, name) in enumerate(names)
        ]
        return curve(title, unit, lines, from_zero=True, along="seconds", point=duration)

    count = len(result.gpus.names) if result.gpus else 0
    of_gpus = [
        drawn(f"GPU: {title}", unit, [(f"GPU {i}", f"gpu{i}.{name}") for i in range(count)], divisor)
        for title, unit, name, divisor in _GPU_CHARTS
    ]
    of_host = [
        drawn("Throughput", "tokens/s", [("tokens/s", "training.tokens_per_second")]),
        drawn("Processor", "% of all cores", [("machine", "machine.cpu_percent")]),
        drawn("The run's processor", "% of one core", [("run", "process.cpu_percent")]),
        drawn("The run's memory", "GiB", [("resident", "process.resident")], 2.0**30),
    ]
    found_rows = [[it.message, it.advice] for it in result.findings]
    parts = result.breakdown
    shares = [[name, f"{parts.seconds[name]:.2f} s", f"{share:.1%}"] for name, share in parts.shares.items()]
    lead = f"{len(result.samples)} samples in {result.seconds:.1f} s"
    if result.run is not None:
        lead += f" beside the run in {result.run.folder}"
    return document(
        "What the run waits for",
        [
            heading("What the run waits for", lead),
            section("Verdict", table(["found", "what to do"], found_rows)),
            section("Where the time went", table(["", "", ""], shares) if parts.steps else ""),
            section("Over time", charts([*of_gpus, *of_host])),
        ],
    )
