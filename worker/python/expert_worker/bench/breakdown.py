"""The time of a run by part: waiting for data, transfer, passes, update, evaluation, checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from expert_worker.events.models import Checkpoint, Evaluated, Event, Progress

NAMES = ("data wait", "transfer", "forward and backward", "update", "evaluate", "checkpoint")


@dataclass(frozen=True)
class Step:
    """Seconds of one optimizer step. Forward and backward is what takes longer of launching and computing:
    on a GPU they run beside each other, on a CPU they are the same."""

    number: int
    seconds: float
    tokens: int
    data_wait: float
    transfer: float
    launch: float | None
    compute: float | None

    @property
    def passes(self) -> float:
        if self.launch is None or self.compute is None:
            return max(0.0, self.seconds - self.data_wait - self.transfer)
        return max(self.launch, self.compute)

    @property
    def update(self) -> float:
        """Clipping, the optimizer, and the loop itself."""
        return max(0.0, self.seconds - self.data_wait - self.transfer - self.passes)

    @classmethod
    def of(cls, body: Progress) -> Step:
        return cls(
            body.step,
            body.seconds,
            body.tokens,
            body.data_wait,
            body.transfer or 0.0,
            body.host_launch,
            body.device_compute,
        )


@dataclass(frozen=True)
class Breakdown:
    """Sums over a stretch of training."""

    steps: tuple[Step, ...]
    evaluate: float
    checkpoint: float

    @property
    def data_wait(self) -> float:
        return math.fsum(step.data_wait for step in self.steps)

    @property
    def transfer(self) -> float:
        return math.fsum(step.transfer for step in self.steps)

    @property
    def passes(self) -> float:
        return math.fsum(step.passes for step in self.steps)

    @property
    def update(self) -> float:
        return math.fsum(step.update for step in self.steps)

    @property
    def seconds(self) -> dict[str, float]:
        """By name."""
        parts = (self.data_wait, self.transfer, self.passes, self.update, self.evaluate, self.checkpoint)
        return dict(zip(NAMES, parts, strict=True))

    @property
    def whole(self) -> float:
        return sum(self.seconds.values())

    @property
    def shares(self) -> dict[str, float]:
        """By name."""
        return {name: self.share(spent) for name, spent in self.seconds.items()}

    def share(self, seconds: float) -> float:
        whole = self.whole
        return seconds / whole if whole else 0.0

    @property
    def tokens_per_second(self) -> float | None:
        seconds = sum(step.seconds for step in self.steps)
        return sum(step.tokens for step in self.steps) / seconds if seconds else None

    @property
    def launch_to_compute(self) -> float | None:
        """How long the host took to issue the work, against how long the device took to do it."""
        split = [step for step in self.steps if step.launch is not None and step.compute is not None]
        compute = sum(step.compute or 0.0 for step in split)
        return sum(step.launch or 0.0 for step in split) / compute if compute else None


def breakdown(events: Iterable[Event]) -> Breakdown:
    steps, evaluate, checkpoint = [], 0.0, 0.0
    for event in events:
        match event.body:
            case Progress() as body:
                steps.append(Step.of(body))
            case Evaluated(seconds=seconds):
                evaluate += seconds
            case Checkpoint(seconds=seconds):
                checkpoint += seconds
    return Breakdown(tuple(steps), evaluate, checkpoint)
