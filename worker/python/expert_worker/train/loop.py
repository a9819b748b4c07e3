"""The training loop, from the first step to the last."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from expert_worker.errors import Failed
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import adapter, memory
from expert_worker.train.data import Order
from expert_worker.train.engine import Engine
from expert_worker.train.optimizer import set_rate
from expert_worker.train.pace import Pace
from expert_worker.train.precision import LossScale
from expert_worker.train.rhythm import Rhythm
from expert_worker.train.team import Team
from expert_worker.train.totals import Totals
from expert_worker.train.window import Gathered, Window

_BAD_STEPS_IN_A_ROW = 3

Evaluate = Callable[[int], dict[str, float]]
Save = Callable[[Totals, dict[str, float]], None]


@dataclass
class Loop:
    """Everything that training needs, built by the stage."""

    plan: Plan
    events: Events
    model: Any
    optimizer: torch.optim.Optimizer
    engine: Engine
    scale: LossScale
    window: Window
    team: Team
    order: Order
    rate: Callable[[int], float]
    total_steps: int
    device: torch.device
    totals: Totals
    evaluating: Rhythm
    evaluate: Evaluate | None
    saving: Rhythm
    save: Save

    def __post_init__(self) -> None:
        self.parameters = list(adapter.trained(self.model).values())
        self.pace = Pace()
        self.utilization = memory.Utilization(self.device)

    def run(self) -> None:
        """Returns when all steps are done or early stopping applies; raises Interrupted after saving."""
        while self.totals.step < self.total_steps:
            began = time.monotonic()
            step = self.totals.step
            rows = self.order.step(step)
            gathered = self.window.gather(step, rows, self.scale.value)
            if not gathered.finished:
                self._leave()
            set_rate(self.optimizer, self.rate(step))
            norm = self._step(step, rows, gathered)
            self._report(gathered, norm, time.monotonic() - began)
            metrics = self._evaluate() if self.evaluating.due(self.totals.step) else {}
            stopping = self.team.any(self.events.stop_requested)
            if self.saving.due(self.totals.step) or (metrics and self._wants_best()) or stopping:
                self.save(self.totals, metrics)
            if stopping and self.totals.step < self.total_steps:
                self._leave()
            if self._exhausted():
                return

    def _step(self, step: int, rows: list[int], gathered: Gathered) -> float | None:
        """Applies the accumulated gradient; None if it was not finite."""
        self._add_extra_loss()
        norm = self._clip()
        self.totals.step = step + 1
        if not (math.isfinite(gathered.loss_sum) and math.isfinite(norm)):
            self._skip(step, rows, gathered)
            return None
        self.optimizer.step()
        adapter.after_step(self.model, step + 1)
        self.engine.parameters_changed()
        self.optimizer.zero_grad()
        self.scale.applied()
        self.totals.add(gathered.loss_sum, gathered.tokens, gathered.supervised)
        self._clear_memory()
        return norm

    def _add_extra_loss(self) -> None:
        extra = adapter.extra_loss(self.model)
        if extra is not None:
            (extra * self.scale.value).backward()  # type: ignore[no-untyped-call]

    def _clip(self) -> float:
        """The unscaled gradient norm before clipping."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.scale.value != 1:
            for gradient in gradients:
                gradient.div_(self.scale.value)
        largest = self.plan.recipe.optimizer.max_grad_norm
        norm = torch.nn.utils.get_total_norm(gradients)
        if largest is not None and torch.isfinite(norm):
            torch.nn.utils.clip_grads_with_norm_(self.parameters, largest, norm)
        return float(norm)

    def _skip(self, step: int, rows: list[int], gathered: Gathered) -> None:
        self.window.clear()
        if math.isfinite(gathered.loss_sum) and self.scale.overflowed():
            detail = f"fp16 gradients overflowed: step skipped, loss scale now {self.scale.value:g}"
            self.events.recovered("non_finite", step, detail)
            return
        named = ", ".join(map(str, rows[:16])) + (" ..." if len(rows) > 16 else "")
        self.events.recovered("non_finite", step, f"Loss or gradients are not finite; skipped rows {named}")
        self.totals.skipped_in_a_row += 1
        if self.totals.skipped_in_a_row >= _BAD_STEPS_IN_A_ROW:
            good = self.totals.step - self.totals.skipped_in_a_row
            self.save(self.totals, {})
            raise Failed(
                f"{_BAD_STEPS_IN_A_ROW} steps in a row had a loss or gradients that are not finite; "
                f"the adapter is that of step {good}, and saved",
                hint="Lower learning_rate, use bf16 instead of fp16, or look at the rows named above.",
                code="diverged",
            )

    def _report(self, gathered: Gathered, norm: float | None, seconds: float) -> None:
        self.pace.took(gathered.tokens, seconds)
        held = memory.now(self.device)
        loss = gathered.loss_sum / max(1, gathered.supervised)
        if not math.isfinite(loss):
            return
        self.events.progress(
            step=self.totals.step,
            total_steps=self.total_steps,
            epoch=self.order.epoch(self.totals.step),
            loss=loss,
            lr=self.rate(self.totals.step - 1),
            grad_norm=norm,
            tokens=gathered.tokens,
            supervised_tokens=gathered.supervised,
            tokens_per_second=gathered.tokens / max(seconds, 1e-9),
            seconds=seconds,
            data_wait=gathered.data_wait,
            transfer=gathered.split.transfer,
            host_launch=gathered.split.host_launch,
            device_compute=gathered.split.device_compute,
            memory_allocated=held.allocated,
            memory_reserved=held.reserved,
            gpu_util=self.utilization.now(),
            eta=self.pace.eta(self.total_steps - self.totals.step),
        )

    def _evaluate(self) -> dict[str, float]:
        assert self.evaluate is not None
        began = time.monotonic()
        self.events.stage("evaluate", detail=f"after step {self.totals.step}")
        metrics = self.evaluate(self.totals.step)
        self.events.evaluated(self.totals.step, metrics, time.monotonic() - began)
        self.totals.eval_loss = metrics.get("eval_loss", self.totals.eval_loss)
        best = self.plan.recipe.evaluation.best
        if best is not None:
            value = _metric(metrics, best.metric)
            if self.totals.consider(value, best.greater_is_better):
                self.events.best(self.totals.step, best.metric, value)
        self.events.stage("train")
        return metrics

    def _wants_best(self) -> bool:
        """A best checkpoint must be on disk to be used at the end."""
        return self.plan.recipe.evaluation.best is not None and self.totals.best_step == self.totals.step

    def _exhausted(self) -> bool:
        best = self.plan.recipe.evaluation.best
        if best is None or best.patience is None or self.totals.evaluations_without_gain < best.patience:
            return False
        self.events.applied(
            "early_stopping",
            self.totals.step,
            f"Stopped early: {best.metric} has not improved since step {self.totals.best_step}",
        )
        return True

    def _leave(self) -> None:
        """At a step boundary: a partial gradient accumulation is discarded and will be repeated."""
        self.save(self.totals, {})
        raise self.events.stop.interrupted(f"Stopped after step {self.totals.step}; the checkpoint is saved")

    def _clear_memory(self) -> None:
        every = self.plan.machine.memory_clear_every
        if every and self.totals.step % every == 0:
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
