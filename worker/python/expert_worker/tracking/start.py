"""From the plan's list of trackers to a sink that hears every event from now on."""

from pathlib import Path

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.tracking.tensorboard import TensorBoard
from expert_worker.tracking.trackers import Opener, Trackers
from expert_worker.tracking.wandb import WeightsAndBiases


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
