"""Which numbers of an event are drawn as curves, and under which names."""

from collections.abc import Mapping
from dataclasses import dataclass

from expert_worker.event import Body, Evaluated, Progress

_GB = 1e9
_LOSS_NAMES = ("eval_loss", "loss")


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
