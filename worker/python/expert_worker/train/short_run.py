"""Settings that a run of few steps makes pointless. Where steps follow from epochs, only the data says how
many there are."""

from __future__ import annotations

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.plan import DurationEpochs, Evaluation, Recipe, Schedule
from expert_worker.train import schedule
from expert_worker.train.trainer import Interval

_SHORTER_WARMUP = "Set warmup_steps to fewer steps, or train for more epochs."
# A cycle of fewer steps is a rate that jumps, not a wave.
_STEPS_OF_A_CYCLE = 4


def check_schedule(recipe: Recipe, steps: int, events: Events) -> None:
    _check_warmup(recipe, steps, events)
    _check_cycles(recipe.schedule, steps, events)


def _check_warmup(recipe: Recipe, steps: int, events: Events) -> None:
    peak, wanted = recipe.optimizer.learning_rate, recipe.schedule
    at, warm = schedule.rate(wanted, peak, steps), schedule.warmup_steps(wanted, steps)
    if not any(at(step) > 0 for step in range(steps)):
        raise BadInput(
            "The only step is warm-up, and its learning rate is 0: nothing would be learned",
            hint=_SHORTER_WARMUP,
            code="warmup-takes-all",
        )
    # Of `max_steps` the rules speak. The last step of a warm-up has the full rate in `one_cycle` alone.
    if warm >= steps and at(steps - 1) < peak and isinstance(wanted.duration, DurationEpochs):
        events.warning(
            "warmup-takes-all",
            f"The warm-up, {warm:,} steps, takes all {steps:,}: the learning rate ends at "
            f"{at(steps - 1) / peak:.0%} of learning_rate",
            _SHORTER_WARMUP,
        )


def _check_cycles(wanted: Schedule, steps: int, events: Events) -> None:
    cycles = wanted.options.get("num_cycles")
    behind = steps - schedule.warmup_steps(wanted, steps)
    if cycles is None or cycles <= 1 or behind <= 0 or behind / cycles >= _STEPS_OF_A_CYCLE:
        return
    events.warning(
        "cycles-too-short",
        f"num_cycles is {cycles:g} in the {behind:,} steps after the warm-up: a cycle is "
        f"{behind / cycles:.1f} steps, and the learning rate jumps instead of falling",
        f"Set num_cycles to at most {max(1, behind // _STEPS_OF_A_CYCLE)}, or train for more steps.",
    )


def check_evaluations(wanted: Evaluation, evaluations: Interval, events: Events) -> None:
    best, count, steps = wanted.best, evaluations.left(0), evaluations.total_steps
    if best is None or steps == 1:
        return
    if count == 1:
        _warn_of_one(steps, events)
    elif best.patience is not None:
        _check_patience(best.patience, count, events)


def _check_patience(patience: int, evaluations: int, events: Events) -> None:
    # The first evaluation is the best so far, and after the last one the run ends anyway.
    most = evaluations - 2
    if patience <= most:
        return
    lower = f"set early_stopping_patience to at most {most}" if most else "remove early_stopping_patience"
    events.warning(
        "patience-out-of-reach",
        f"early_stopping_patience is {patience}, and the run has {evaluations} evaluations: "
        "it cannot stop early",
        f"Evaluate more often, or {lower}.",
    )


def _warn_of_one(steps: int, events: Events) -> None:
    """The best of one evaluation is the last step."""
    events.warning(
        "one-evaluation",
        f"load_best_model_at_end has one evaluation to choose from, after the last of {steps:,} steps: the "
        "adapter is that of the last step",
        f'Evaluate more often: "evaluation_strategy": "steps", "eval_steps": {max(1, steps // 5)}.',
    )
