"""A run's events as spans of time on lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from expert_worker.bench.parts import Step
from expert_worker.event import Checkpoint, Evaluated, Event, Progress, Stage
from expert_worker.event_reader import last_attempt

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

_LANE_OF_STAGE = {
    **dict.fromkeys(
        ("download tokenizer", "check tokenizer", "digest data", "tokenize", "pack", "wait"), TOKENIZE
    ),
    "token cache": TOKENIZE,
    **dict.fromkeys(("download base", "verify base", "convert base", "load base"), LOAD),
    "try largest batch": COMPUTE,
    "mirror": SAVE,
    "final": SAVE,
}


@dataclass(frozen=True)
class Span:
    lane: str
    begin: float
    end: float


@dataclass(frozen=True)
class Course:
    """One attempt at a run, from second 0."""

    name: str
    spans: tuple[Span, ...]
    steps: tuple[tuple[float, float], ...]
    """Where each step begins and ends."""
    seconds: float
    tokens: int
    split: bool
    """Whether launch and compute time were measured separately."""

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


def course(name: str, recorded: Iterable[Event], *, on_cpu: bool) -> Course:
    """On a CPU the host launches what it computes itself, so that only one of the two is drawn."""
    events = last_attempt(recorded)
    if not events:
        return Course(name, (), (), 0.0, 0, split=False)
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
    return Course(name, moved, moved_steps, end - origin, tokens, split)


def _stages(events: Sequence[Event], end: float) -> list[Span]:
    """A stage lasts until the next one begins."""
    begun = [(event.time, event.body.name) for event in events if isinstance(event.body, Stage)]
    # A record may have lost its beginning, and with it every stage.
    ends = [*(time for time, _ in begun), end][1:]
    return [
        Span(lane, time, until)
        for (time, stage), until in zip(begun, ends, strict=True)
        if (lane := _LANE_OF_STAGE.get(stage)) is not None
    ]


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
