"""The training loop, from the first step to the last: gradient accumulation, the retry after an out-of-memory
error, the optimizer's step, intervals, early stopping, throughput and the state that checkpoints hold."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from expert_worker import memory_errors
from expert_worker.errors import Failed, Interrupted
from expert_worker.events import Events
from expert_worker.plan import Evaluation, Plan, Saving
from expert_worker.run_record.record import chooses_by_score
from expert_worker.stop import Stop
from expert_worker.train import adapter, memory
from expert_worker.train.crowding import CrowdingWatch
from expert_worker.train.dataset import Rows
from expert_worker.train.distributed import DistContext
from expert_worker.train.engine import Engine
from expert_worker.train.fast.batch import PackedBatch, nothing, supervised
from expert_worker.train.loader import StepSampler, keyed
from expert_worker.train.objective import Objective
from expert_worker.train.optimizer import set_rate, skips_by_itself
from expert_worker.train.precision import LossScale
from expert_worker.train.profiler import Profile

# A micro-batch on a slow CPU, or the compilation of a step.
TRAIN_BUDGET = 900.0
# One batch of the longest validation rows may take minutes on a CPU.
EVALUATION_BUDGET = 600.0
_NAMED_ROWS = 3
_BAD_STEPS_IN_A_ROW = 3

Evaluate = Callable[[int], dict[str, float]]


class EvaluationStopped(Interrupted):
    """Training was asked to stop during an evaluation, which a resumed run repeats."""


class Checkpoints(Protocol):
    """What the loop asks of `CheckpointManager`."""

    def save(
        self, state: TrainerState, metrics: dict[str, float], tokens_per_second: float | None = None
    ) -> None:
        """Completes the checkpoint of `save_unscored` where it is of the same step."""

    def save_unscored(self, state: TrainerState, tokens_per_second: float | None = None) -> None:
        """At most once per step."""

    def drop_unscored(self) -> None: ...

    def mirror_unscored(self) -> None: ...


@dataclass
class Trainer:
    """Everything that training needs, built by the stage."""

    plan: Plan
    events: Events
    model: Any
    optimizer: torch.optim.Optimizer
    engine: Engine
    scale: LossScale
    accumulator: GradientAccumulator
    dist: DistContext
    order: StepSampler
    rate: Callable[[int], float]
    total_steps: int
    device: torch.device
    state: TrainerState
    evaluation_interval: Interval
    evaluate: Evaluate | None
    save_interval: Interval
    checkpoints: Checkpoints
    answer_begins: Callable[[int], str]
    """The first words that are learned of a row."""
    began: float
    """When the run would have begun, had all of its attempts followed one another."""
    owes_evaluation: bool = False
    """The checkpoint that the run resumes from was saved before its evaluation was made."""
    earlier_speed: float | None = None
    """Tokens per second of the attempt before this one, for a run that resumes after its last step."""
    profile: Profile | None = None

    def __post_init__(self) -> None:
        # Answers take minutes, in which a stop or a kill must not lose the steps before them.
        self.saves_before_evaluation = chooses_by_score(self.plan.recipe)
        self.parameters = list(adapter.trained(self.model).values())
        self.throughput = ThroughputMeter()
        self.utilization = memory.Utilization(self.device)
        self.crowding = CrowdingWatch(torch.get_num_threads())
        self.unread: UnreadStep | None = None
        self.marked = 0.0
        self.accumulator.before_retry = self._read_unread
        # A loss scale that moves decides about the next step, and AdaLoRA about its ranks.
        self.reads_late = (
            self.device.type == "cuda"
            and self.dist.size == 1
            and not self.scale.moving
            and not adapter.acts_after_step(self.model)
            and skips_by_itself(self.optimizer)
        )

    def run(self) -> None:
        """Returns when all steps are done or early stopping applies; raises Interrupted after saving."""
        if self.owes_evaluation:
            metrics = self._evaluate()
            if not self.saves_before_evaluation:
                # A stop saved it, and no other checkpoint has its last steps.
                self._save(metrics)
            self._save_or_leave(metrics)
        if self._stops_early():
            return
        while self.state.step < self.total_steps:
            if self.unread is None:
                self.marked = time.monotonic()
            step = self.state.step
            rows, fitted = self.order.step(step), self.accumulator.micro_batch
            try:
                result = self.accumulator.accumulate(step, rows, self.scale.value)
            except BaseException as error:
                with suppress(RuntimeError):  # After an error of the device nothing can be read.
                    self._read_unread()
                if isinstance(error, memory.RowTooLarge) and self.dist.size == 1 and self.state.step:
                    # That of the steps before, for the run that continues.
                    self.accumulator.micro_batch = fitted
                    self._save({})
                    raise self._with_saved_steps(error) from None
                raise
            # The device computes this step while the host reads the figures of the one before.
            self._read_unread()
            if not result.finished:
                self._leave()
            set_rate(self.optimizer, self.rate(step))
            self._update(step, rows, result)
            if not self.reads_late or self._is_last():
                self._read_unread()
            if self.profile is not None and self.profile.is_last_step():
                # Before the trace is written, whose time is not the step's.
                self._read_unread()
                self.profile.write()
            self._save_or_leave(self._evaluate_if_due())
            if self._stops_early():
                return

    def _with_saved_steps(self, error: memory.RowTooLarge) -> Failed:
        """Longer rows than this one may have fitted: before training the longest ones did."""
        off = self.plan.machine.checkpointing == "none"
        return Failed(
            f"{error.message} any more; the {self.state.step} steps until now are saved",
            hint="Another program may use the memory: end it, "
            + ("or switch gradient_checkpointing on, " if off else "")
            + "then continue with --resume. Training starts again with a lower max_seq_length or a quantized "
            "base.",
            code=error.code,
        )

    def _save_or_leave(self, metrics: dict[str, float]) -> None:
        """What follows a step and its evaluation, if it had one."""
        stopping = self.dist.agrees_to_stop(self.events.stop)
        wanted = self.save_interval.due(self.state.step) or (metrics and self._wants_best())
        if wanted or stopping or self._has_stalled():
            self._save(metrics)
        elif metrics and self.saves_before_evaluation:
            self.checkpoints.drop_unscored()
        if stopping and not self._is_last():
            self._leave()

    def _is_last(self) -> bool:
        return self.state.step == self.total_steps

    def _update(self, step: int, rows: list[int], result: StepResult) -> None:
        """Applies the accumulated gradient. Where the optimizer itself skips a step that is not finite, the
        host does not wait to know."""
        self._add_extra_loss()
        norm = self._clip()
        self.state.step = step + 1
        unread = UnreadStep(step, rows, result, norm)
        self.unread = unread
        if not self.reads_late:
            if unread.is_finite:
                self._apply(step)
            else:
                self.accumulator.clear()
                if adapter.after_skipped_step(self.model, step + 1):
                    self.engine.parameters_changed()
            return
        self.optimizer.found_inf = unread.not_finite()  # type: ignore[attr-defined]
        self._apply(step)
        unread.send()

    def _apply(self, step: int) -> None:
        self.optimizer.step()
        adapter.after_step(self.model, step + 1)
        self.engine.parameters_changed()
        self.optimizer.zero_grad()
        self.scale.applied()
        self._clear_memory()

    def _read_unread(self) -> None:
        """Counts and reports the step whose loss and norm were not read yet."""
        unread, self.unread = self.unread, None
        if unread is None:
            return
        result = unread.read()
        if unread.is_finite:
            self.state.add(result)
        else:
            self._skip(unread.step, unread.rows, result)
        now = time.monotonic()
        self._report(unread.step + 1, result, unread.norm if unread.is_finite else None, now - self.marked)
        self.marked = now

    def _add_extra_loss(self) -> None:
        extra = adapter.extra_loss(self.model)
        if extra is not None:
            (extra * self.scale.value).backward()  # type: ignore[no-untyped-call]

    def _clip(self) -> Tensor:
        """The unscaled gradient norm before clipping."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.scale.value != 1:
            for gradient in gradients:
                gradient.div_(self.scale.value)
        largest = self.plan.recipe.optimizer.max_grad_norm
        norm = torch.nn.utils.get_total_norm(gradients)
        if largest is not None:
            # Without a look at the norm, for which the host would wait: a step that is not finite is skipped.
            torch.nn.utils.clip_grads_with_norm_(self.parameters, largest, norm)
        return norm

    def _skip(self, step: int, rows: list[int], result: StepResult) -> None:
        if math.isfinite(float(result.loss_sum)) and self.scale.overflowed():
            detail = f"fp16 gradients overflowed: step skipped, loss scale now {self.scale.value:g}"
            self.events.recovered("non_finite", step + 1, detail)
            return
        begins = " and ".join(f'"{self.answer_begins(row)}"' for row in rows[:_NAMED_ROWS])
        held = "its row, whose answer begins" if len(rows) == 1 else f"its {len(rows)} rows; answers begin"
        detail = f"Loss or gradients are not finite: left out {held} {begins}"
        self.events.recovered("non_finite", step + 1, detail)
        self.state.skipped_in_a_row += 1
        if self.state.skipped_in_a_row >= _BAD_STEPS_IN_A_ROW:
            good = self.state.step - self.state.skipped_in_a_row
            self._save({})
            raise Failed(
                f"{_BAD_STEPS_IN_A_ROW} steps in a row had a loss or gradients that are not finite; "
                f"the adapter is that of step {good}, and saved",
                hint=self._what_may_help(good),
                code="diverged",
            )

    def _what_may_help(self, good: int) -> str:
        in_fp16 = ["use bf16 instead of fp16"] if self.scale.moving else []
        ways = [*(["lower learning_rate"] if good else []), *in_fp16, "look at alpha and at the rows above"]
        text = ", or ".join(ways)
        return f"{text[0].upper()}{text[1:]}."

    def _report(self, done: int, result: StepResult, norm: float | None, seconds: float) -> None:
        """After `done` steps."""
        self.throughput.add(result.tokens, seconds)
        steps_left = self.total_steps - done
        if self.device.type == "cpu" and (busy := self.crowding.message(steps_left)):
            self.events.warning("machine-busy", busy)
        held = memory.now(self.device)
        loss = float(result.loss_sum) / max(1, result.weight)
        if not math.isfinite(loss):
            return
        self.events.progress(
            step=done,
            total_steps=self.total_steps,
            epoch=self.order.epoch(done),
            loss=loss,
            lr=self.rate(done - 1),
            grad_norm=norm,
            tokens=result.tokens,
            supervised_tokens=result.supervised,
            tokens_per_second=result.tokens / max(seconds, 1e-9),
            seconds=seconds,
            data_wait=result.data_wait,
            transfer=result.timing.transfer,
            host_launch=result.timing.host_launch,
            device_compute=result.timing.device_compute,
            memory_allocated=held.allocated,
            memory_reserved=held.reserved,
            gpu_util=self.utilization.now(),
            eta=self.throughput.eta(steps_left),
        )

    def _evaluate_if_due(self) -> dict[str, float]:
        if not self.evaluation_interval.due(self.state.step):
            return {}
        self._read_unread()
        if self.saves_before_evaluation:
            self.checkpoints.save_unscored(self._timed(), self.tokens_per_second)
        return self._evaluate()

    def _evaluate(self) -> dict[str, float]:
        assert self.evaluate is not None
        began = time.monotonic()
        self.events.stage("evaluate", EVALUATION_BUDGET, f"after step {self.state.step}")
        try:
            metrics = self.evaluate(self.state.step)
        except EvaluationStopped:
            self._save_before_evaluation()
            raise
        except memory.RowTooLarge as error:
            if self.dist.size > 1 or self.state.step == 0:
                raise
            self._save_before_evaluation()
            raise self._with_saved_steps(error) from None
        self.events.evaluated(self.state.step, metrics, time.monotonic() - began)
        loss = metrics.get("eval_loss", self.state.eval_loss)
        self.state.eval_loss = loss if loss is not None and math.isfinite(loss) else None
        best = self.plan.recipe.evaluation.best
        if best is not None:
            value = _metric(metrics, best.metric)
            if self.state.record_evaluation(value, best.greater_is_better):
                self.state.best_eval_loss = self.state.eval_loss
                self.events.best(self.state.step, best.metric, value)
        self.events.stage("train", TRAIN_BUDGET)
        return metrics

    def _save_before_evaluation(self) -> None:
        """The steps until an evaluation that did not end: the run that continues evaluates first."""
        self.checkpoints.save_unscored(self._timed(), self.tokens_per_second)
        self.checkpoints.mirror_unscored()

    def _save(self, metrics: dict[str, float]) -> None:
        self._read_unread()
        self.checkpoints.save(self._timed(), metrics, self.tokens_per_second)

    def _timed(self) -> TrainerState:
        self.state.seconds = self.seconds
        return self.state

    @property
    def seconds(self) -> float:
        """Of the run, without those of steps that were lost with an earlier attempt."""
        return time.monotonic() - self.began

    @property
    def tokens_per_second(self) -> float | None:
        return self.throughput.tokens_per_second or self.earlier_speed

    def _wants_best(self) -> bool:
        """A best checkpoint must be on disk to be used at the end."""
        return self.plan.recipe.evaluation.best is not None and self.state.best_step == self.state.step

    def _has_stalled(self) -> bool:
        best = self.plan.recipe.evaluation.best
        patience = best.patience if best is not None else None
        return patience is not None and self.state.evaluations_without_gain >= patience

    def _stops_early(self) -> bool:
        best = self.plan.recipe.evaluation.best
        if best is None or not self._has_stalled():
            return False
        since, used = self.state.last_gain(), self.state.best_step
        reason = "was never a finite number" if since is None else f"has not improved since step {since}"
        equal = f"; step {used} is the latest with this value, and is used" if used != since else ""
        self.events.applied(
            "early_stopping", self.state.step, f"Stopped early: {best.metric} {reason}{equal}"
        )
        return True

    def _leave(self) -> None:
        """At a step boundary: a partial gradient accumulation is discarded and will be repeated."""
        self._save({})
        if self.state.step == 0:
            raise self.events.stop.interrupted("Stopped in the first step; nothing is saved yet")
        raise self.events.stop.interrupted(f"Stopped after step {self.state.step}; the checkpoint is saved")

    def _clear_memory(self) -> None:
        every = self.plan.machine.memory_clear_every
        if every and self.state.step % every == 0:
            memory.release()


def _metric(metrics: dict[str, float], name: str) -> float:
    """`loss` and `eval_loss` are the same metric."""
    for known in (name, f"eval_{name}", name.removeprefix("eval_")):
        if known in metrics:
            return metrics[known]
    there = ", ".join(sorted(metrics))
    raise Failed(
        f"metric_for_best_model is {name}, which no evaluation gave (there were {there})",
        hint="Use eval_loss, or accuracy together with an evaluation scorer.",
        code="unknown-metric",
    )


@dataclass(frozen=True)
class StepTiming:
    """Seconds. On a CPU host and device are one, so that launching and computing are the same time."""

    transfer: float = 0.0
    host_launch: float = 0.0
    device_compute: float = 0.0


@dataclass(frozen=True)
class StepResult:
    """One step's sums and times; the loss is `loss_sum` divided by `weight`. `finished` is false where a wish
    to stop cut it short. On a GPU the loss is there before it is computed: `timer` has its times then."""

    loss_sum: float | Tensor
    weight: int
    tokens: int
    supervised: int
    data_wait: float
    timing: StepTiming = field(default_factory=StepTiming)
    finished: bool = True
    timer: StepTimer | None = None


class UnreadStep:
    """A step whose loss and gradient norm are still on the device: one copy brings both."""

    def __init__(self, step: int, rows: list[int], result: StepResult, norm: Tensor) -> None:
        self.step, self.rows, self._result = step, rows, result
        self._norm = norm
        self._figures: Tensor | None = None
        self._copied: torch.cuda.Event | None = None
        self._values: tuple[float, float] | None = None

    def not_finite(self) -> Tensor:
        """1 where loss or norm is not finite, else 0."""
        figures = self._together()
        return (figures - figures).ne_(0).amax()

    def send(self) -> None:
        """Starts the copy to the host."""
        figures = self._together()
        if figures.device.type != "cuda":
            return
        self._figures = torch.empty_like(figures, device="cpu", pin_memory=True).copy_(
            figures, non_blocking=True
        )
        self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._copied.record(torch.cuda.current_stream(figures.device))

    def read(self) -> StepResult:
        loss_sum, _ = self._read()
        result = self._result
        timing = result.timer.timing() if result.timer is not None else result.timing
        return replace(result, loss_sum=loss_sum, timing=timing, timer=None)

    @property
    def norm(self) -> float:
        return self._read()[1]

    @property
    def is_finite(self) -> bool:
        return all(map(math.isfinite, self._read()))

    def _read(self) -> tuple[float, float]:
        if self._values is None:
            loss = self._result.loss_sum
            if isinstance(loss, Tensor):
                if self._copied is not None:
                    self._copied.synchronize()
                loss, norm = self._together().tolist()  # Waits for the device, unless it was copied.
                self._values = loss, norm
            else:
                self._values = loss, float(self._norm)
        return self._values

    def _together(self) -> Tensor:
        if self._figures is None:
            loss = torch.as_tensor(self._result.loss_sum)
            # A step without gradients has a norm on the CPU.
            self._figures = torch.stack([loss.reshape(()).float(), self._norm.float().to(loss.device)])
        return self._figures


class GradientAccumulator:
    """`micro_batch` is what fits: it is halved in place and stays so."""

    def __init__(
        self,
        engine: Engine,
        objective: Objective,
        rows: Rows,
        parameters: Sequence[torch.nn.Parameter],
        seed: int,
        micro_batch: int,
        events: Events,
        dist: DistContext,
        *,
        is_probe: bool = False,
    ) -> None:
        """`is_probe`: its steps are not steps of the run."""
        self._engine, self._objective = engine, objective
        self._rows, self._parameters = rows, parameters
        self._seed, self._events, self._dist = seed, events, dist
        self._is_probe = is_probe
        self.micro_batch = micro_batch
        self.before_retry: Callable[[], None] = lambda: None
        """What is to be reported before a retry is."""
        self._lengths = rows.row_lengths()
        self._device = parameters[0].device if parameters else torch.device("cpu")

    def accumulate(self, step: int, rows: Sequence[int], scale: float = 1.0) -> StepResult:
        """Leaves in the parameters the gradient of the step's mean loss, times `scale`. Each process walks
        its share of the rows."""
        began = time.monotonic()
        batches = self._batches(step, rows)
        data_wait = time.monotonic() - began
        stop = self._events.stop if self._dist.size > 1 else Stop()
        weight, count, tokens, stopping, terminated = self._dist.sum(
            sum(self._objective.weight(batch) for batch in batches),
            sum(supervised(batch.labels, batch.positions) for batch in batches),
            sum(batch.ids.numel() for batch in batches),
            float(stop.requested),
            float(stop.terminated),
        )
        if stopping:
            stop.request(terminated=terminated > 0)
        walked = None if stopping else self._backward_or_halve(step, rows, batches, scale / max(1, weight))
        if walked is None:
            self.clear()
            return StepResult(0.0, 0, 0, 0, data_wait, finished=False)
        loss, timer = walked
        sums = int(weight), int(tokens), int(count), data_wait
        if isinstance(loss, Tensor) and loss.device.type == "cuda" and self._dist.size == 1:
            return StepResult(loss, *sums, timer=timer)
        summed = float(loss)
        timing = timer.timing()
        self._dist.sum_gradients(self._parameters)
        (whole,) = self._dist.sum(summed)
        return StepResult(whole, *sums, timing)

    def over(self, rows: Rows) -> GradientAccumulator:
        """A probe with the same settings over other rows."""
        return GradientAccumulator(
            self._engine,
            self._objective,
            rows,
            self._parameters,
            self._seed,
            self.micro_batch,
            self._events,
            self._dist,
            is_probe=True,
        )

    def clear(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def _backward_or_halve(
        self, step: int, rows: Sequence[int], batches: list[PackedBatch], scale: float
    ) -> tuple[Tensor | float, StepTimer] | None:
        """The summed loss of this process's rows, on the device, and its time; None where a wish to stop cut
        it short."""
        while True:
            freed = False
            try:
                if not self._dist.sharded:
                    return self._backward(step, batches, scale)
                if (found := self._backward_in_lockstep(step, rows, batches, scale)) is not None:
                    return found
            except (RuntimeError, MemoryError) as error:
                if not memory_errors.ran_out(error):
                    raise
                freed = isinstance(error, memory.Freed)
            self.clear()
            self.before_retry()
            if freed:
                continue
            held = min(self.micro_batch, self._dist.largest_share(rows))
            reports = not self._dist.sharded or self._dist.is_main_process
            number = 0 if self._is_probe else step + 1
            self.micro_batch = memory.halve_after_oom(held, number, "the step", self._events, reports=reports)
            batches = self._batches(step, rows)

    def _backward(
        self, step: int, batches: list[PackedBatch], scale: float
    ) -> tuple[Tensor | float, StepTimer] | None:
        self.clear()
        loss: Tensor | None = None
        watch = StepTimer(self._device)
        for number, batch in enumerate(batches, 1):
            part = self._engine.backward(watch.to_device(self._engine, batch), scale)
            loss = part if loss is None else loss + part
            self._events.accumulating(step, number, len(batches))
            if self._events.stop_requested and number < len(batches) and self._dist.size == 1:
                return None
        watch.launched()
        return 0.0 if loss is None else loss, watch

    def _backward_in_lockstep(
        self, step: int, rows: Sequence[int], batches: list[PackedBatch], scale: float
    ) -> tuple[Tensor | float, StepTimer] | None:
        """Each pass needs all processes: one without remaining rows, or that ran out of memory, takes part
        without rows. None where any ran out: then all repeat the step with fewer rows at once."""
        self.clear()
        loss: Tensor | float = 0.0
        watch = StepTimer(self._device)
        ran_out = False
        for number in range(self._dist.rounds(len(rows), self.micro_batch)):
            try:
                if number < len(batches) and not ran_out:
                    loss = loss + self._engine.backward(batches[number], scale)
                    self._events.accumulating(step, number + 1, len(batches))
                else:
                    self._engine.backward(nothing(), 0.0)
            except (RuntimeError, MemoryError) as error:
                if not memory_errors.ran_out(error):
                    raise
                ran_out = True
        watch.launched()
        return None if self._dist.any(ran_out) else (loss, watch)

    def _batches(self, step: int, rows: Sequence[int]) -> list[PackedBatch]:
        mine = self._dist.share(rows)
        return [
            self._read(mine[start : start + self.micro_batch], step)
            for start in range(0, len(mine), self.micro_batch)
        ]

    def _read(self, rows: Sequence[int], step: int) -> PackedBatch:
        return keyed(self._objective.batch(self._rows, rows), self._seed, step, rows, self._lengths)


@dataclass
class TrainerState:
    step: int = 0
    tokens: int = 0
    supervised_tokens: int = 0
    loss_sum: float = 0.0
    loss_tokens: int = 0
    skipped_in_a_row: int = 0
    best_value: float | None = None
    best_step: int | None = None
    evaluations_without_gain: int = 0
    eval_loss: float | None = None
    best_eval_loss: float | None = None
    """The validation loss at `best_step`, whatever metric chose it."""
    seconds: float = 0.0
    """Of all attempts until the checkpoint of this step."""
    evaluated: list[tuple[int, float | None]] = field(default_factory=list)
    """Each evaluation's step and value, so that a run can say what its best was the best of. None for a value
    that is not finite."""

    @property
    def train_loss(self) -> float:
        return self.loss_sum / self.loss_tokens if self.loss_tokens else 0.0

    def add(self, result: StepResult) -> None:
        self.tokens += result.tokens
        self.supervised_tokens += result.supervised
        self.loss_sum += float(result.loss_sum)
        self.loss_tokens += result.weight
        self.skipped_in_a_row = 0

    def record_evaluation(self, value: float, greater_is_better: bool) -> bool:
        """Whether an evaluation at the current step is the best so far.

        Of equals the later one wins: it has trained longer, and accuracies over few rows are often equal. An
        equal value is not an improvement, and one that is not finite is never the best.
        """
        if not math.isfinite(value):
            self.evaluated.append((self.step, None))
            self.evaluations_without_gain += 1
            return False
        self.evaluated.append((self.step, value))
        ahead = self.best_value is None or (
            value > self.best_value if greater_is_better else value < self.best_value
        )
        self.evaluations_without_gain = 0 if ahead else self.evaluations_without_gain + 1
        best = ahead or value == self.best_value
        if best:
            self.best_value, self.best_step = value, self.step
        return best

    def last_gain(self) -> int | None:
        """The step at which the best value was reached first."""
        reached = (step for step, value in self.evaluated if value is not None and value == self.best_value)
        return next(reached, self.best_step)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"evaluated": [list(pair) for pair in self.evaluated]}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TrainerState:
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})


@dataclass(frozen=True)
class Interval:
    """`every` is None for never, and 0 for the last step only."""

    every: int | None
    total_steps: int

    @classmethod
    def of(cls, chosen: Evaluation | Saving, steps_per_epoch: int, total_steps: int) -> Interval:
        match chosen.strategy:
            case "no":
                # The last step is saved in any case: --resume --extend continues from it.
                return cls(0 if isinstance(chosen, Saving) else None, total_steps)
            case "epoch":
                return cls(steps_per_epoch, total_steps)
            case _:
                return cls(int(chosen.steps or 0), total_steps)

    def due(self, step: int) -> bool:
        """Whether it is due after `step` steps."""
        if self.every is None:
            return False
        return step == self.total_steps or bool(self.every and step % self.every == 0)

    def left(self, step: int) -> int:
        """The number of remaining times after `step` steps."""
        if self.every is None or step >= self.total_steps:
            return 0
        if not self.every:
            return 1
        at_the_end = self.total_steps % self.every != 0
        return self.total_steps // self.every - step // self.every + int(at_the_end)


@dataclass
class ThroughputMeter:
    """The first step includes warm-up, so the figures count from its end."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first_seen: bool = False

    def add(self, tokens: int, seconds: float) -> None:
        if not self.first_seen:
            self.first_seen = True
            return
        self.steps += 1
        self.tokens += tokens
        self.seconds += seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Unknown until a step has followed the first."""
        return self.tokens / self.seconds if self.seconds > 0 else None

    def eta(self, steps_left: int) -> float | None:
        return self.seconds / self.steps * steps_left if self.steps else None


class StepTimer:
    """Measures one step. On CUDA it uses device events, without synchronising while the step is launched."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._transfer = self._launch = 0.0
        self._first = self._mark()
        self._last = self._first
        self._began = time.perf_counter()

    def to_device(self, engine: Engine, batch: PackedBatch) -> PackedBatch:
        """Moves the batch to the device and measures the time."""
        began = time.perf_counter()
        there = engine.to_device(batch)
        self._transfer += time.perf_counter() - began
        return there

    def launched(self) -> None:
        """The host has launched everything; the device may still be computing."""
        self._launch = time.perf_counter() - self._began - self._transfer
        self._last = self._mark()

    def timing(self) -> StepTiming:
        """Call after the device has finished, such as after the loss was read."""
        if self._first is None:
            return StepTiming(self._transfer, self._launch, self._launch)
        # A process without rows has read no loss, and has waited for nothing.
        if not self._last.query():
            self._last.synchronize()
        computed = self._first.elapsed_time(self._last) / 1e3
        return StepTiming(self._transfer, self._launch, computed)

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event
