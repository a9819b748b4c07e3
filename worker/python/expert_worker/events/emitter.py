"""The worker's voice: each method writes one line to the CLI and, in training, to `events.jsonl`."""

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from expert_worker.errors import ExpertError, remedy
from expert_worker.events import models as lines
from expert_worker.events.sinks import Memory, Record, Sink
from expert_worker.plan import CONTRACT_VERSION
from expert_worker.stop import Stop

QUIET_BUDGET = 60.0
_ACCUMULATING_EVERY = 0.5


class Events:
    """Thread-safe. `stop` and `tick` live here because every stage that reports is also asked to stop."""

    def __init__(
        self,
        live: Sequence[Sink] = (),
        record: Record | None = None,
        *,
        task: lines.Task = "train",
        recipe_digest: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.stop = Stop()
        self.ticks = 0
        self.attempt = record.past.attempts + 1 if record else 1
        self._task = task
        self._recipe_digest = recipe_digest
        self._live = list(live)
        self._record = record
        self._clock = clock
        self._lock = threading.RLock()
        self._recording = threading.RLock()
        self._record_fails = False
        self._begun = False
        self._held: list[tuple[lines.Event, bytes]] = []
        self._last_accumulating = -math.inf

    @classmethod
    def in_memory(cls, task: lines.Task = "train") -> tuple[Self, Memory]:
        """For tests: the emitter, and the sink whose `.events` holds what was said."""
        memory = Memory()
        return cls([memory], task=task), memory

    @property
    def stop_requested(self) -> bool:
        return self.stop.requested

    def attach(self, sink: Sink) -> None:
        """One more listener, a tracker for instance. It must not raise: it hears under the emitter's lock."""
        with self._lock:
            self._live.append(sink)

    def tick(self) -> None:
        """The main loop went round: between two heartbeats without a tick it is stuck."""
        self.ticks += 1

    def begin(self, resumed_from: int = 0) -> None:
        """The attempt's first line in the record. `train` calls it once it knows the step that it resumes
        from.
        """
        with self._recording:
            if self._begun:
                return
            self._begun = True
            self._emit(
                lines.Started(
                    contract=CONTRACT_VERSION,
                    stage=self._task,
                    pid=os.getpid(),
                    recipe_digest=self._recipe_digest,
                    resumed_from=resumed_from,
                )
            )
            held, self._held = self._held, []
            for event, line in held:
                self._keep(event, line)

    def stage(
        self, name: lines.StageName, quiet_budget: float = QUIET_BUDGET, detail: str | None = None
    ) -> None:
        """A part of the work begins that may rightly be silent for `quiet_budget` seconds."""
        self.tick()
        self._emit(lines.Stage(name=name, detail=detail, quiet_budget=quiet_budget))

    def advance(
        self,
        stage: lines.StageName,
        done: int,
        total: int | None = None,
        *,
        unit: str = "rows",
        rate: float | None = None,
    ) -> None:
        self.tick()
        self._emit(lines.Advance(stage=stage, done=done, total=total, unit=unit, rate=_finite_or_none(rate)))

    def accumulating(self, step: int, micro: int, of: int) -> None:
        """Cheap to call for every micro-batch: at most two lines per second are written."""
        self.tick()
        now = self._clock()
        if now - self._last_accumulating >= _ACCUMULATING_EVERY:
            self._last_accumulating = now
            self._emit(lines.Accumulating(step=step, micro=micro, of=of))

    def progress(
        self,
        *,
        step: int,
        total_steps: int,
        epoch: float,
        loss: float,
        lr: float,
        tokens: int,
        supervised_tokens: int,
        tokens_per_second: float,
        seconds: float,
        data_wait: float,
        transfer: float | None = None,
        host_launch: float | None = None,
        device_compute: float | None = None,
        memory_allocated: int = 0,
        memory_reserved: int = 0,
        grad_norm: float | None = None,
        gpu_util: float | None = None,
        eta: float | None = None,
    ) -> None:
        self.tick()
        self._emit(
            lines.Progress(
                step=step,
                total_steps=total_steps,
                epoch=epoch,
                loss=loss,
                lr=lr,
                grad_norm=_finite_or_none(grad_norm),
                tokens=tokens,
                supervised_tokens=supervised_tokens,
                tokens_per_second=tokens_per_second,
                seconds=seconds,
                data_wait=data_wait,
                transfer=transfer,
                host_launch=host_launch,
                device_compute=device_compute,
                memory_allocated=memory_allocated,
                memory_reserved=memory_reserved,
                gpu_util=_finite_or_none(gpu_util),
                eta=_finite_or_none(eta),
            )
        )

    def applied(self, key: str, value: JsonValue, note: str | None = None) -> None:
        """A setting as read back from torch, peft or the loader."""
        self._emit(lines.Applied(key=key, value=value, note=note))

    def evaluated(self, step: int, metrics: Mapping[str, float], seconds: float) -> None:
        self.tick()
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        for name in sorted(metrics.keys() - finite.keys()):
            self.warning("metric-not-finite", f"{name} is not a finite number at step {step}")
        self._emit(lines.Evaluated(step=step, metrics=finite, seconds=seconds))

    def checkpoint(self, step: int, path: str | os.PathLike[str], size: int, seconds: float) -> None:
        self.tick()
        self._emit(lines.Checkpoint(step=step, path=os.fspath(path), bytes=size, seconds=seconds))

    def best(self, step: int, metric: str, value: float) -> None:
        self._emit(lines.Best(step=step, metric=metric, value=value))

    def recovered(self, kind: lines.Recovery, step: int, detail: str) -> None:
        self._emit(lines.Recovered(kind=kind, step=step, detail=detail))

    def warning(self, code: str, message: str, hint: str | None = None) -> None:
        self._emit(lines.WarningLine(code=code, message=message, hint=hint))

    def text(self, source: str, text: str, *, done: bool = False, cut: bool = False) -> None:
        self.tick()
        self._emit(lines.Text(source=source, text=text, done=done, cut=cut))

    def storage_waits(self, path: Path | str, seconds: float) -> None:
        message = f"{path} has not answered for {seconds:.0f} s: its disk or file server is slow or gone"
        hint = "The run waits for it, and loses nothing; Ctrl-C stops it, and --resume continues."
        self._say(lines.WarningLine(code="storage-slow", message=message, hint=hint))

    def heartbeat(self) -> None:
        self._say(lines.Heartbeat(ticks=self.ticks))

    def finished(self, result: JsonValue) -> None:
        self._begin_where_the_record_ends()
        self._emit(lines.Finished(result=result))

    def failed(self, error: ExpertError) -> None:
        self._begin_where_the_record_ends()
        self._emit(
            lines.Failed(exit=error.exit_code, code=error.code, message=error.message, hint=error.hint)
        )

    def close(self) -> None:
        with self._recording, self._lock:
            for sink in [*self._live, *([self._record] if self._record else [])]:
                sink.close()
            self._live, self._record = [], None

    def _begin_where_the_record_ends(self) -> None:
        """An attempt that ends before it began must not make readers drop what earlier ones did."""
        self.begin(self._record.past.last_step if self._record else 0)

    def _emit(self, body: lines.Body) -> None:
        # The record may be on storage that does not answer: heartbeats must not wait for it.
        with self._recording:
            event, line = self._say(body)
            if self._begun:
                self._keep(event, line)
            elif self._record:
                self._held.append((event, line))

    def _say(self, body: lines.Body) -> tuple[lines.Event, bytes]:
        """To whoever listens now."""
        with self._lock:
            event = lines.Event(time=self._clock(), attempt=self.attempt, body=body)
            line = event.model_dump_json().encode() + b"\n"
            for sink in self._live:
                sink.write(event, line)
        return event, line

    def _keep(self, event: lines.Event, line: bytes) -> None:
        """A record that cannot be written is a loss, never a reason to stop training."""
        if self._record is None:
            return
        try:
            self._record.write(event, line)
        except OSError as error:
            if not self._record_fails:
                self._record_fails = True
                self.warning(
                    "events-not-recorded",
                    f"events.jsonl cannot be written: {error.strerror or error}. Training continues; the "
                    "lines are kept and written once that is possible",
                    f"{remedy(error)}: without these lines the report and `runs` lack steps.",
                )
        else:
            self._record_fails = False


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
