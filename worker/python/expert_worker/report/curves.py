"""How training went, step by step."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from expert_worker.report.charts import Line, curve
from expert_worker.report.parts import Raw, section
from expert_worker.report.read import Run

_CALM = 10
_SPANS = 50
"""How many means a long curve has beside one another."""
_ENOUGH = 3 * _CALM
_FELT = 1.0


def curves(run: Run) -> str:
    resident = run.plan.get("machine", {}).get("device", {}).get("kind") == "cpu"
    memory = [
        Line("resident" if resident else "allocated", series(run, "memory_allocated", 1e9)),
        Line("peak" if resident else "reserved", series(run, "memory_reserved", 1e9), hue=1),
    ]
    tokens = [
        Line("all", series(run, "tokens"), hue=1),
        Line("learnt from", series(run, "supervised_tokens")),
    ]
    charts = [
        curve("Loss", "nats a token", [*_loss(run), Line("validation", _evaluated(run), hue=1, dots=True)]),
        curve("Accuracy on validation", "share right", [Line("accuracy", _accuracy(run), dots=True)]),
        curve("Learning rate", "a step", [Line("learning rate", series(run, "lr"))], from_zero=True),
        curve("Throughput", "tokens/s", [Line("tokens/s", series(run, "tokens_per_second"))], from_zero=True),
        curve("Tokens", "tokens a step", tokens, from_zero=True),
        curve("Memory", "GB", memory, from_zero=True),
        curve("Gradient", "norm", [Line("norm", series(run, "grad_norm"))], from_zero=True),
        curve("GPU", "% busy", [Line("busy", series(run, "gpu_util"))], from_zero=True),
        curve("Waiting for data", "% of a step", [Line("waiting", _waiting(run))], from_zero=True),
    ]
    body = "".join(charts)
    return section("Curves", Raw(f'<div class="charts">{body}</div>')) if body else ""


def series(run: Run, name: str, unit: float = 1.0) -> list[tuple[float, float]]:
    return [(float(s["step"]), s[name] / unit) for s in run.steps if isinstance(s.get(name), int | float)]


def _loss(run: Run) -> list[Line]:
    """Noisy as single steps are, with their mean over it where there are enough of them."""
    every = series(run, "loss")
    if len(every) < _ENOUGH:
        return [Line("training", every)]
    span = max(_CALM, len(every) // _SPANS)
    return [Line("training", every, faint=True), Line(f"mean of {span}", trailing_mean(every, span))]


def trailing_mean(points: Sequence[tuple[float, float]], span: int) -> list[tuple[float, float]]:
    sums = [0.0, *accumulate(y for _, y in points)]
    return [(points[last - 1][0], (sums[last] - sums[last - span]) / span) for last in range(span, len(sums))]


def _waiting(run: Run) -> list[tuple[float, float]]:
    """Nothing where it is never felt."""
    shares = [
        (float(s["step"]), 100 * s["data_wait"] / s["seconds"])
        for s in run.steps
        if s.get("seconds") and isinstance(s.get("data_wait"), int | float)
    ]
    return shares if sum(share for _, share in shares) >= _FELT * len(shares) else []


def _evaluated(run: Run) -> list[tuple[float, float]]:
    told = ((e["step"], e["metrics"].get("eval_loss", e["metrics"].get("loss"))) for e in run.evaluations)
    return [(float(step), loss) for step, loss in told if loss is not None]


def _accuracy(run: Run) -> list[tuple[float, float]]:
    metrics: list[dict[str, Any]] = run.evaluations
    return [(float(e["step"]), e["metrics"]["accuracy"]) for e in metrics if "accuracy" in e["metrics"]]
