"""How training went, step by step."""

from expert_worker.event import ACCURACY, EVAL_LOSS
from expert_worker.report.charts import Line, curve
from expert_worker.report.parts import charts, section
from expert_worker.report.read import Run
from expert_worker.report.series import Points

_OLD_EVAL_LOSS = "loss"
_CALM = 10
_SPANS = 50
"""How many means a long curve has beside one another."""
_ENOUGH = 3 * _CALM
_FELT = 1.0
_GIB = 2.0**30


def curves(run: Run) -> str:
    series = run.steps.series
    resident = run.plan.machine is not None and run.plan.machine.device.kind == "cpu"
    memory = [
        Line("resident" if resident else "allocated", series("memory_allocated", _GIB)),
        Line("peak" if resident else "reserved", series("memory_reserved", _GIB), hue=1),
    ]
    tokens = [
        Line("all", series("tokens"), hue=1),
        Line("learnt from", series("supervised_tokens")),
    ]
    drawn = [
        curve("Loss", "nats per token", [*_loss(run), Line("validation", _evaluated(run), hue=1, dots=True)]),
        curve("Accuracy on validation", "share right", [Line("accuracy", _accuracy(run), dots=True)]),
        curve("Learning rate", "", [Line("learning rate", series("lr"))], from_zero=True),
        curve("Throughput", "tokens/s", [Line("tokens/s", series("tokens_per_second"))], from_zero=True),
        curve("Tokens", "tokens per step", tokens, from_zero=True),
        curve("Memory", "GiB", memory, from_zero=True),
        curve("Gradient", "norm", [Line("norm", series("grad_norm"))], from_zero=True),
        curve("GPU", "% busy", [Line("busy", series("gpu_util"))], from_zero=True),
        curve("Waiting for data", "% of a step", [Line("waiting", _waiting(run))], from_zero=True),
    ]
    return section("Curves", charts(drawn))


def _loss(run: Run) -> list[Line]:
    """Noisy as single steps are, with their mean over it where there are enough of them."""
    every = run.steps.series("loss")
    if len(every) < _ENOUGH:
        return [Line("training", every)]
    span = max(_CALM, len(run.steps) // _SPANS)
    return [Line("training", every, faint=True), Line(f"mean of {span}", run.steps.mean_loss(span))]


def _waiting(run: Run) -> Points:
    """Nothing where it is never felt."""
    shares = run.steps.series("waiting")
    return shares if sum(share for _, share in shares) >= _FELT * len(shares) else []


def _evaluated(run: Run) -> Points:
    told = ((e.step, e.metrics.get(EVAL_LOSS, e.metrics.get(_OLD_EVAL_LOSS))) for e in run.evaluations)
    return [(float(step), loss) for step, loss in told if loss is not None and abs(loss) < 1e100]


def _accuracy(run: Run) -> Points:
    told = ((e.step, e.metrics.get(ACCURACY)) for e in run.evaluations)
    return [(float(step), share) for step, share in told if share is not None and abs(share) < 1e100]
