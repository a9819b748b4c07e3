"""Learning rates as a pure function of the step, so that a resumed run needs no scheduler state.

The shapes are those that users of transformers know; `step` counts from 0 and is the one about to be taken.
"""

import math
from collections.abc import Callable, Mapping

from expert_worker.plan import Schedule, WarmupRatio

Shape = Callable[[float, Mapping[str, float]], float]
"""From the finished share of the decay (0 to 1) to a factor on the rate."""


def rounded_up(steps: float) -> int:
    """As a decimal product is: 0.07 of 100 steps are 7, though the binary product is 7.000000000000001."""
    return math.ceil(steps - 1e-9)


# Of all steps, where a manifest names no warm-up: as torch's OneCycleLR.
_ONE_CYCLE_WARMUP = 0.3


def warmup_steps(schedule: Schedule, total: int) -> int:
    """As many as are done: `constant` has none, and `one_cycle` always has some. A share, which is rounded
    up, leaves at least the last step to learn at the full rate."""
    if schedule.kind == "constant":
        return 0
    share = _warmup_share(schedule)
    return int(schedule.warmup.value) if share is None else min(rounded_up(share * total), total - 1)


def _warmup_share(schedule: Schedule) -> float | None:
    """Of all steps; None where the warm-up is a number of steps."""
    if schedule.kind == "one_cycle" and not schedule.warmup.value:
        return _ONE_CYCLE_WARMUP
    return schedule.warmup.value if isinstance(schedule.warmup, WarmupRatio) else None


def rate(schedule: Schedule, peak: float, total: int) -> Callable[[int], float]:
    if schedule.kind == "one_cycle":
        return _one_cycle(schedule, peak, total)
    warm, shape = warmup_steps(schedule, total), _shape(schedule.kind, peak)

    def at(step: int) -> float:
        if step < warm:
            return peak * step / max(1, warm)
        behind = (step - warm) / max(1, total - warm)
        return peak * shape(min(1.0, behind), schedule.options)

    return at


def _shape(kind: str, peak: float) -> Shape:
    shapes: dict[str, Shape] = {
        "linear": lambda behind, options: _above_least(1 - behind, options),
        "cosine": _cosine,
        "cosine_with_restarts": _restarts,
        "polynomial": lambda behind, options: _polynomial(behind, options, peak),
        "constant": lambda *_: 1.0,
        "constant_with_warmup": lambda *_: 1.0,
    }
    return shapes[kind]


def _cosine(behind: float, options: Mapping[str, float]) -> float:
    wave = 0.5 * (1 + math.cos(math.pi * 2 * options.get("num_cycles", 0.5) * behind))
    return _above_least(max(0.0, wave), options)


def _restarts(behind: float, options: Mapping[str, float]) -> float:
    if behind >= 1:
        return _above_least(0.0, options)
    wave = 0.5 * (1 + math.cos(math.pi * ((options.get("num_cycles", 1.0) * behind) % 1.0)))
    return _above_least(wave, options)


def _above_least(factor: float, options: Mapping[str, float]) -> float:
    """A factor that falls from 1 to 0, so that it ends at `min_lr_ratio`."""
    least = options.get("min_lr_ratio", 0.0)
    return least + (1 - least) * factor


def _polynomial(behind: float, options: Mapping[str, float], peak: float) -> float:
    # As transformers; of a smaller peak the rate would rise.
    end = options.get("lr_end", 1e-7 if peak > 1e-7 else 0.0)
    remaining: float = (1 - behind) ** options.get("power", 1.0)
    return ((peak - end) * remaining + end) / peak


def _one_cycle(schedule: Schedule, peak: float, total: int) -> Callable[[int], float]:
    """As torch's OneCycleLR: the rate rises from a 25th of the peak, which it reaches at the last warm-up
    step, and falls to `min_lr_ratio`, or to almost nothing, at the last step. With a share, the peak may be
    between two steps. The only step of a run has the peak, where torch's would learn nothing."""
    share = _warmup_share(schedule)
    top = (schedule.warmup.value if share is None else share * total) - 1 if total > 1 else 0
    falls = total - 1 - top
    first, last = peak / 25, peak * schedule.options.get("min_lr_ratio", 1 / 25 / 1e4)

    def at(step: int) -> float:
        if step <= top:
            start, end, done = first, peak, step / top if top else 1.0
        else:
            start, end = peak, last
            done = min(1.0, (step - top) / falls) if falls > 0 else 1.0
        return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))

    return at
