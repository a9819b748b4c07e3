"""Draw where the time of a run went: tokenizing, loading, waiting for data, computing, saving."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from expert_worker.bench.attach import record_of
from expert_worker.bench.breakdown import Step
from expert_worker.bench.output import bar, demand_writable, number, write_file
from expert_worker.bench.svg import picture
from expert_worker.errors import BadInput
from expert_worker.events.models import Checkpoint, Evaluated, Event, Progress, Stage, StageName, Started
from expert_worker.events.reader import EventFile, last_attempt
from expert_worker.record_reader import read_json, read_record
from expert_worker.recorded import PlanRecord
from expert_worker.terminal import stdout_columns, write_stderr, write_stdout

TOKENIZE, LOAD, DATA, TRANSFER, LAUNCH, COMPUTE, UPDATE, EVALUATE, SAVE = LANES = (
    "tokenize",
    "load base",
    "data wait",
    "transfer",
    "launch (host)",
    "compute (device)",
    "update",
    "evaluate",
    "save",
)
# Below the resolution of event times.
_LEAST = 1e-6

# The maximum width of a lane in characters, and of its name, the seconds and the share beside it.
_TEXT_WIDTH, _BESIDE = 60, 40
_SHADES = " ░▒▓█"

_WIDTH, _LEFT, _RIGHT, _LANE, _GAP = 980, 150, 120, 22, 6
_ENLARGED_STEPS = 4
# Distinguishable with colour blindness, on a light and on a dark background.
_COLOURS = dict(
    zip(
        LANES,
        ("#c2570c", "#8a6d3b", "#d1a21f", "#8e5bb5", "#4a90d9", "#1a7f4b", "#5f6b7a", "#1f6fd1", "#a33a6a"),
        strict=True,
    )
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, metavar="DIR", help="the folder of a run")
    parser.add_argument("--against", type=Path, metavar="DIR", help="the run before, drawn above it")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the picture as SVG")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a drawing")


def run_command(given: argparse.Namespace) -> int:
    demand_writable(given.output)
    folders = [folder for folder in (given.against, given.run) if folder is not None]
    timelines = [read(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    if given.output:
        write_file(given.output, svg_timelines(timelines))
    if given.json:
        write_stdout(json.dumps({"ok": True, "runs": [_document(it) for it in timelines]}))
        return 0
    write_stdout(text_timelines(timelines, stdout_columns()))
    if len(timelines) == 2:
        write_stdout("\n" + comparison(*timelines))
    if not any(it.of(LAUNCH) for it in timelines):
        write_stdout("\non a CPU launching and computing are the same time, so only computing is drawn")
    if given.output:
        write_stderr(f"the picture is in {given.output}")
    return 0


def read(folder: Path, name: str) -> Timeline:
    record = record_of(folder)
    found = build_timeline(name, EventFile(record).read(ended=True), on_cpu=_on_cpu(folder))
    if not found.steps:
        raise BadInput(
            f"{folder} has made no step yet, so there is nothing to draw",
            hint="Name a run that has begun to train.",
            code="no-steps",
        )
    return found


def _names(folders: list[Path]) -> list[str]:
    names = [folder.resolve().name for folder in folders]
    if len(names) == 2:
        return [f"before: {names[0]}", f"after: {names[1]}"]
    return names


def _on_cpu(folder: Path) -> bool:
    machine = read_record(PlanRecord, read_json(folder / "plan.json"))[0].machine
    return machine is not None and machine.device.kind == "cpu"


def _document(it: Timeline) -> dict[str, Any]:
    return {
        "name": it.name,
        "seconds": it.seconds,
        "training_seconds": it.training_seconds,
        "steps": len(it.steps),
        "tokens": it.tokens,
        "launch_told_apart": it.split,
        "lanes": {lane: it.spent(lane) for lane in it.lanes},
        "spans": [{"lane": span.lane, "begin": span.begin, "end": span.end} for span in it.spans],
    }


@dataclass(frozen=True)
class Span:
    lane: str
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """One attempt at a run, in seconds since its start."""

    name: str
    spans: tuple[Span, ...]
    steps: tuple[tuple[float, float], ...]
    """Where each step begins and ends."""
    seconds: float
    tokens: int
    split: bool
    """Whether launch and compute time were measured separately."""
    attempt: str = ""
    """Which one, in words, where there were several."""

    def of(self, lane: str) -> list[Span]:
        return [span for span in self.spans if span.lane == lane]

    def spent(self, lane: str) -> float:
        return sum((span.end - span.begin for span in self.of(lane)), 0.0)

    @property
    def lanes(self) -> list[str]:
        return [lane for lane in LANES if self.of(lane)]

    @property
    def training_seconds(self) -> float:
        return sum((end - begin for begin, end in self.steps), 0.0)


def build_timeline(name: str, recorded: Iterable[Event], *, on_cpu: bool) -> Timeline:
    """Of the newest attempt that made a step: one that only finished a run has none. On a CPU launching and
    computing are the same time, so only computing is drawn."""
    known = list(recorded)
    events = last_attempt(known, having=Progress)
    if not events:
        return Timeline(name, (), (), 0.0, 0, split=False)
    origin, end = events[0].time, events[-1].time
    spans = _stages(events, end)
    steps: list[tuple[float, float]] = []
    tokens, split = 0, False
    for event in events:
        body, now = event.body, event.time
        if isinstance(body, Progress):
            step = Step.of(body)
            steps.append((now - step.seconds, now))
            tokens += step.tokens
            split = split or step.launch is not None
            spans += _step(step, now - step.seconds, now, on_cpu)
        elif isinstance(body, Evaluated | Checkpoint):
            lane = EVALUATE if isinstance(body, Evaluated) else SAVE
            spans.append(Span(lane, now - body.seconds, now))
    moved = tuple(
        Span(it.lane, max(0.0, it.begin - origin), it.end - origin)
        for it in spans
        if it.end - it.begin > _LEAST
    )
    moved_steps = tuple((begin - origin, finish - origin) for begin, finish in steps)
    attempt = _attempt(events, max(event.attempt for event in known))
    return Timeline(name, moved, moved_steps, end - origin, tokens, split, attempt)


def _attempt(events: Sequence[Event], of: int) -> str:
    if of == 1:
        return ""
    begun = next((it.body.resumed_from for it in events if isinstance(it.body, Started)), 0)
    return f", attempt {events[0].attempt} of {of}, from step {begun}"


def _stages(events: Sequence[Event], end: float) -> list[Span]:
    """A stage lasts until the next one begins."""
    begun = [(event.time, event.body.name) for event in events if isinstance(event.body, Stage)]
    # A record may have lost its beginning, and with it every stage.
    ends = [*(time for time, _ in begun), end][1:]
    return [
        Span(lane, time, until)
        for (time, stage), until in zip(begun, ends, strict=True)
        if (lane := _lane(stage)) is not None
    ]


def _lane(stage: StageName) -> str | None:
    """None: the stage's time is drawn from its steps and evaluations, or not at all."""
    match stage:
        case (
            "download tokenizer"
            | "check tokenizer"
            | "download data"
            | "digest data"
            | "compare rows"
            | "token cache"
            | "wait"
            | "tokenize"
            | "pack"
        ):
            return TOKENIZE
        case "download base" | "verify base" | "convert base" | "load base":
            return LOAD
        case "try largest batch" | "try evaluation batch":
            return COMPUTE
        case "mirror" | "final":
            return SAVE
        case (
            "load libraries"
            | "processes"
            | "adapter"
            | "train"
            | "evaluate"
            | "base answers"
            | "base judged"
            | "base loss"
            | "adapter answers"
            | "adapter judged"
            | "adapter loss"
            | "compared model answers"
            | "compared model judged"
            | "compared model loss"
            | "sampled answers"
            | "samples judged"
            | "answering"
            | "copy"
            | "merge"
            | "write"
            | "compare logits"
            | "compare answers"
        ):
            return None


def _step(step: Step, begin: float, end: float, on_cpu: bool) -> list[Span]:
    ready = begin + step.data_wait
    there = ready + step.transfer
    passed = min(end, there + step.passes)
    launch, compute = step.launch, step.compute if step.compute is not None else step.passes
    spans = [Span(DATA, begin, ready), Span(TRANSFER, ready, there)]
    if launch is not None and not on_cpu:
        spans.append(Span(LAUNCH, there, there + launch))
    # The device begins with the first launch and is the later of the two to end.
    spans += [Span(COMPUTE, passed - min(compute, passed - there), passed), Span(UPDATE, passed, end)]
    return spans


def text_timelines(timelines: Sequence[Timeline], columns: int | None = None) -> str:
    """All timelines on the same scale, to compare before and after."""
    longest = max(timeline.seconds for timeline in timelines)
    lanes = [lane for lane in LANES if any(timeline.of(lane) for timeline in timelines)]
    width = _TEXT_WIDTH if columns is None else min(_TEXT_WIDTH, max(10, columns - _BESIDE))
    return "\n\n".join(_text_timeline(timeline, lanes, longest, width) for timeline in timelines)


def _text_timeline(timeline: Timeline, lanes: Sequence[str], longest: float, width: int) -> str:
    speed = timeline.tokens / timeline.training_seconds if timeline.training_seconds else 0.0
    head = f"{timeline.name}: {timeline.seconds:.1f} s, {len(timeline.steps)} steps, {number(speed)} tokens/s"
    lines = [head + timeline.attempt]
    for lane in lanes:
        spent = timeline.spent(lane)
        share = spent / timeline.seconds if timeline.seconds else 0.0
        lines.append(f"  {lane:<17}|{_strip(timeline, lane, longest, width)}| {spent:8.2f} s {share:6.1%}")
    return "\n".join(lines)


def _strip(timeline: Timeline, lane: str, longest: float, width: int) -> str:
    """Each cell as dark as the part of its time that the lane was busy."""
    busy = [0.0] * width
    cell = longest / width if longest else 1.0
    for span in timeline.of(lane):
        first, last = int(span.begin / cell), min(width - 1, int(span.end / cell))
        for place in range(first, last + 1):
            inside = min(span.end, (place + 1) * cell) - max(span.begin, place * cell)
            busy[place] += max(0.0, inside) / cell
    return "".join(_shade(share) for share in busy)


def _shade(share: float) -> str:
    if share <= 0:
        return " "
    return _SHADES[max(1, min(4, round(share * 4)))]


def comparison(before: Timeline, after: Timeline) -> str:
    """What changed, lane by lane, for each 1,000 tokens: runs may differ in length."""
    lines = ["seconds for 1,000 tokens of training"]
    most = max(_rate(timeline, lane) for timeline in (before, after) for lane in LANES) or 1.0
    for lane in LANES:
        old, new = _rate(before, lane), _rate(after, lane)
        if not old and not new:
            continue
        change = f"{old / new:.2f}x" if new > 0 and old > 0 else "gone" if old else "new"
        lines.append(
            f"  {lane:<17}{number(old):>9} {bar(old / most, 20)} -> "
            f"{number(new):>9} {bar(new / most, 20)} {change}"
        )
    return "\n".join(lines)


def _rate(timeline: Timeline, lane: str) -> float:
    return timeline.spent(lane) / timeline.tokens * 1000 if timeline.tokens else 0.0


@dataclass(frozen=True)
class Range:
    """The part of a timeline that one panel shows."""

    title: str
    begin: float
    end: float
    enlarged: bool = False


def svg_timelines(timelines: Sequence[Timeline]) -> str:
    """All timelines on the same scale: each as a whole, and a few of its steps enlarged."""
    lanes = [lane for lane in LANES if any(timeline.of(lane) for timeline in timelines)]
    parts, top = [], 16
    for timeline, ranges in zip(timelines, _ranges(timelines), strict=True):
        for shown in ranges:
            drawn, height = _panel(timeline, shown, lanes, top)
            parts.append(drawn)
            top += height
    words = "; ".join(f"{timeline.name}: {timeline.seconds:.1f} s" for timeline in timelines)
    return picture(_WIDTH, top, words, "".join(parts))


def _ranges(timelines: Sequence[Timeline]) -> list[list[Range]]:
    """Ranges of equal length for all timelines, so that a shorter one also looks shorter."""
    whole = max((timeline.seconds for timeline in timelines), default=0.0) or 1.0
    length = max((_enlarged(timeline)[1] - _enlarged(timeline)[0] for timeline in timelines), default=0.0)
    found = []
    for timeline in timelines:
        speed = timeline.tokens / timeline.training_seconds if timeline.training_seconds else 0.0
        title = (
            f"{timeline.name} — {timeline.seconds:.1f} s, {len(timeline.steps)} steps, {speed:,.0f} tokens/s"
            f"{timeline.attempt}"
        )
        ranges = [Range(title, 0.0, whole)]
        if length:
            begin = _enlarged(timeline)[0]
            ranges.append(
                Range(
                    f"{timeline.name}, {_ENLARGED_STEPS} steps enlarged",
                    begin,
                    begin + length,
                    enlarged=True,
                )
            )
        found.append(ranges)
    return found


def _enlarged(timeline: Timeline) -> tuple[float, float]:
    """Begin and end of a few consecutive steps after the first, which warms up."""
    steps = timeline.steps[1 : 1 + _ENLARGED_STEPS] or timeline.steps
    return (steps[0][0], steps[-1][1]) if steps else (0.0, 0.0)


def _panel(timeline: Timeline, shown: Range, lanes: Sequence[str], top: int) -> tuple[str, int]:
    length = shown.end - shown.begin
    parts = [f'<text class="head" x="16" y="{top + 12}">{escape(shown.title)}</text>']
    y = top + 24
    for lane in lanes:
        parts.append(_rail(timeline, shown, lane, y))
        y += _LANE + _GAP
    if shown.enlarged:
        parts.append(_boundaries(timeline, shown, top + 24, y))
    for place in range(6):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * place / 5
        at = shown.begin + length * place / 5
        parts.append(f'<path class="tick" d="M{x:.1f} {top + 24}V{y}"/>')
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{y + 12}" text-anchor="middle">{_clock(at, length)}</text>'
        )
    return "".join(parts), y + 34 - top


def _boundaries(timeline: Timeline, shown: Range, top: int, bottom: int) -> str:
    """Where one step ends and the next begins."""
    wide, length = _WIDTH - _LEFT - _RIGHT, shown.end - shown.begin
    inside = [begin for begin, _ in timeline.steps if shown.begin < begin < shown.end]
    xs = [_LEFT + (begin - shown.begin) / length * wide for begin in inside]
    return "".join(f'<path class="step" d="M{x:.1f} {top}V{bottom}"/>' for x in xs)


def _rail(timeline: Timeline, shown: Range, lane: str, y: int) -> str:
    wide, length = _WIDTH - _LEFT - _RIGHT, shown.end - shown.begin
    parts = [
        f'<text x="{_LEFT - 10}" y="{y + 15}" text-anchor="end">{escape(lane)}</text>',
        f'<rect class="rail" x="{_LEFT}" y="{y}" width="{wide}" height="{_LANE}"/>',
    ]
    inside = 0.0
    for span in timeline.of(lane):
        begin, end = max(span.begin, shown.begin), min(span.end, shown.end)
        if end <= begin:
            continue
        inside += end - begin
        x = _LEFT + (begin - shown.begin) / length * wide
        parts.append(
            f'<rect fill="{_COLOURS[lane]}" x="{x:.2f}" y="{y}" '
            f'width="{max(0.4, (end - begin) / length * wide):.2f}" height="{_LANE}"/>'
        )
    held = min(length, max(0.0, timeline.seconds - shown.begin)) or 1.0
    label = f"{_seconds(inside)}  {inside / held:.0%}"
    parts.append(f'<text class="soft" x="{_WIDTH - _RIGHT + 10}" y="{y + 15}">{label}</text>')
    return "".join(parts)


def _clock(at: float, length: float) -> str:
    return f"{at:.0f} s" if length >= 20 else f"{at:.2f} s"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.3g} ms"
