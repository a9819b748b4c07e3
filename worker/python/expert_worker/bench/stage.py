"""Train a few steps of a plan and measure them, for `expert-cli bench ablate` and `tune`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from pydantic import JsonValue

from expert_worker.base.locate import locate
from expert_worker.bench.breakdown import Step
from expert_worker.bench.limit import limited
from expert_worker.bench.sample import GpuMeter
from expert_worker.checkpoint import Store
from expert_worker.events import Events
from expert_worker.events.models import Applied, Event, Progress, Recovered
from expert_worker.plan import BenchRequest, Plan
from expert_worker.results import BenchResult, BenchStep, KernelChoice
from expert_worker.train import memory
from expert_worker.train.dataset import Dataset, longest, open_dataset
from expert_worker.train.distributed import DistContext
from expert_worker.train.session import Session, prepare


class Recorder:
    """An event sink that keeps the steps, the applied settings and whether a batch was split."""

    def __init__(self) -> None:
        self.steps: list[Progress] = []
        self.applied: dict[str, Any] = {}
        self.split = False

    def write(self, event: Event, line: bytes) -> None:
        del line
        body = event.body
        if isinstance(body, Progress):
            self.steps.append(body)
        elif isinstance(body, Applied):
            self.applied[body.key] = body.value
        elif isinstance(body, Recovered):
            self.split = self.split or body.kind == "out_of_memory"

    def close(self) -> None:
        """Nothing to close."""


def run(plan: Plan, events: Events) -> JsonValue:
    assert isinstance(plan.request, BenchRequest)
    # A first download and tokenizing say nothing about the setting: the limit is for what follows.
    locate(plan.recipe.base, plan.machine.paths, events)
    dataset = open_dataset(plan, events)
    try:
        with limited(plan.request.limit_seconds, events):
            return measure(plan, events, dataset).as_json()
    finally:
        dataset.close()


def measure(plan: Plan, events: Events, dataset: Dataset) -> BenchResult:
    """Trains in a temporary folder."""
    recorder = Recorder()
    events.attach(recorder)
    with tempfile.TemporaryDirectory(prefix="expert-bench-") as folder:
        session = prepare(plan, events, dataset, Store(Path(folder), events), None, DistContext())
        loaded = memory.now(session.trainer.device).allocated
        ready = time.time() - psutil.Process().create_time()
        _longest_first(session, dataset)
        device = plan.machine.device
        after_longest = memory.peak(session.trainer.device)
        with GpuMeter(device.index if device.kind == "cuda" else None) as gpu:
            session.trainer.run()
        session.checkpoints.drain()
        # Speed without the first step, which warms up, unless it is the only one.
        steps = recorder.steps
        timed = steps[1:] or steps
        seconds = sum(step.seconds for step in timed)
        tokens = sum(step.tokens for step in timed)
        return BenchResult(
            ok=True,
            fits=not recorder.split,
            micro_batch=session.trainer.accumulator.micro_batch,
            ready_seconds=ready,
            loaded_bytes=loaded,
            peak_bytes_of_longest=after_longest,
            peak_bytes=memory.peak(session.trainer.device),
            gpu_utilization=gpu.mean,
            losses=tuple(step.loss for step in steps),
            tokens=tokens,
            seconds=seconds,
            tokens_per_second=tokens / seconds if seconds else None,
            first_step_seconds=steps[0].seconds if steps else None,
            steps=tuple(map(_parts, steps)),
            applied=recorder.applied,
            kernels={
                operation: KernelChoice(chosen=choice.chosen, others=tuple(choice.others))
                for operation, choice in session.trainer.engine.kernels.items()
            },
        )


def _longest_first(session: Session, dataset: Dataset) -> None:
    """Trains the longest rows first, so that a batch that does not fit is found before the timed steps."""
    accumulator = session.trainer.accumulator.over(dataset.train)
    count = min(accumulator.micro_batch, session.trainer.order.rows_per_step)
    accumulator.accumulate(0, longest(dataset.train.row_lengths(), count))
    accumulator.clear()
    session.trainer.accumulator.micro_batch = accumulator.micro_batch


def _parts(step: Progress) -> BenchStep:
    split = Step.of(step)
    return BenchStep(
        seconds=split.seconds,
        tokens=split.tokens,
        data_wait=split.data_wait,
        transfer=split.transfer,
        host_launch=split.launch or 0.0,
        device_compute=split.compute or 0.0,
        update=split.update,
    )
