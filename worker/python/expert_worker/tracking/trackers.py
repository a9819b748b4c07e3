"""TensorBoard and W&B, fed from events in a separate thread: training never waits for a tracker,
and continues if one fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from expert_worker.events import Events
from expert_worker.events.models import Body, Evaluated, Event, Progress
from expert_worker.events.reader import NAME as EVENTS
from expert_worker.events.reader import EventFile
from expert_worker.plan import Plan, recipe_document

_GB = 1e9
_LOSS_NAMES = ("eval_loss", "loss")
_ROOM = 10_000
_LAST_WORDS = 30.0


@dataclass(frozen=True)
class Point:
    step: int
    values: Mapping[str, float]


def point(body: Body, every: int) -> Point | None:
    """`every` thins out the steps; the last one is always drawn, evaluations always are."""
    if isinstance(body, Progress):
        if body.step % max(every, 1) and body.step != body.total_steps:
            return None
        return Point(body.step, _of_progress(body))
    if isinstance(body, Evaluated):
        return Point(body.step, {_eval_name(name): value for name, value in body.metrics.items()})
    return None


def _of_progress(progress: Progress) -> dict[str, float]:
    values = {
        "Loss/train": progress.loss,
        "LR": progress.lr,
        "Throughput/tokens_per_sec": progress.tokens_per_second,
        "Memory/allocated_gb": progress.memory_allocated / _GB,
    }
    if progress.gpu_util is not None:
        values["GPU/utilization"] = progress.gpu_util
    if progress.grad_norm is not None:
        values["Gradient/norm"] = progress.grad_norm
    return values


def _eval_name(metric: str) -> str:
    return "Loss/eval" if metric in _LOSS_NAMES else f"Eval/{metric.removeprefix('eval_')}"


class Backend(Protocol):
    def log(self, point: Point) -> None: ...

    def close(self) -> None: ...


Opener = Callable[[], Backend]


class Trackers:
    """A sink of the event stream. Backends are opened in the thread too: connecting may take its time."""

    def __init__(self, openers: Sequence[tuple[str, Opener]], events: Events, every: int = 1) -> None:
        self._openers = openers
        self._events = events
        self._every = every
        self._backends: dict[str, Backend] = {}
        self._queue: queue.Queue[Point | None] = queue.Queue(_ROOM)
        self._last_step = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="trackers", daemon=True)
        self._thread.start()

    def write(self, event: Event, line: bytes) -> None:
        del line
        found = point(event.body, self._every)
        if found is None or self._closed:
            return
        # A tracker that is too far behind loses points rather than memory; events.jsonl has them all.
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(found)

    def close(self) -> None:
        """Hand over what is left, but not for ever: the points are safe in events.jsonl."""
        if self._closed:
            return
        self._closed = True
        try:
            self._queue.put(None, timeout=_LAST_WORDS)
        except queue.Full:
            return
        self._thread.join(_LAST_WORDS)

    def _work(self) -> None:
        for name, opener in self._openers:
            self._guard(name, lambda name=name, opener=opener: self._open(name, opener))  # type: ignore[misc]
        while (found := self._queue.get()) is not None:
            self._last_step = found.step
            for name, backend in list(self._backends.items()):
                self._guard(name, lambda backend=backend: backend.log(found))  # type: ignore[misc]
        for name, backend in list(self._backends.items()):
            self._guard(name, backend.close)

    def _open(self, name: str, opener: Opener) -> None:
        self._backends[name] = opener()

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (Exception, SystemExit) as error:  # a tracker may raise anything; none may stop training
            self._backends.pop(name, None)
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            detail = f"{name} stopped ({reason}); training continues, events.jsonl keeps every number."
            self._events.recovered("tracker", self._last_step, detail)


class TensorBoard:
    def __init__(self, folder: Path, resumed_from: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Steps after the resumed one are recorded again: the older points are purged from the curves, all of
        # them where an attempt before was killed without a checkpoint.
        purge = resumed_from + 1 if resumed_from else 0
        self._writer = SummaryWriter(str(folder), purge_step=purge, flush_secs=10)

    def log(self, point: Point) -> None:
        for tag, value in point.values.items():
            self._writer.add_scalar(tag, value, point.step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    def __init__(self, plan: Plan) -> None:
        try:
            import wandb
        except ImportError as error:
            raise RuntimeError(
                "the package wandb is not installed: pip install 'expert-worker[wandb]'"
            ) from error
        self._run: Any = wandb.init(
            # An argument overrides wandb's own variable.
            project=os.environ.get("WANDB_PROJECT") or "expert-cli",
            name=plan.recipe.expert,
            id=_run_id(plan),
            resume="allow",
            dir=plan.machine.paths.output,
            config=recipe_document(plan.recipe),
            settings=wandb.Settings(console="off"),
        )

    def log(self, point: Point) -> None:
        self._run.log(dict(point.values), step=point.step)

    def close(self) -> None:
        self._run.finish()


def _run_id(plan: Plan) -> str:
    """A resumed run continues the same curves. One that starts over is another run: W&B ignores steps that
    are not above the last one it has. The run's folder may move, as from one node of a cluster to another."""
    first = next(EventFile(Path(plan.machine.paths.output) / EVENTS).read(), None)
    began = first.time if first is not None else None
    return hashlib.sha256(f"{plan.recipe_digest} {plan.recipe.expert} {began}".encode()).hexdigest()[:16]


def start_trackers(plan: Plan, events: Events, resumed_from: int = 0) -> Trackers:
    """Close the result before the stage returns, so that the last points arrive."""
    known: dict[str, Opener] = {
        "tensorboard": lambda: TensorBoard(Path(plan.machine.paths.output) / "tensorboard", resumed_from),
        "wandb": lambda: WeightsAndBiases(plan),
    }
    asked = [(name, known[name]) for name in plan.machine.logging.trackers]
    trackers = Trackers(asked, events, every=plan.machine.logging.steps)
    events.attach(trackers)
    return trackers
