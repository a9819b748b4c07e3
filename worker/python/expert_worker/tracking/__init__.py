"""TensorBoard and W&B, derived from the events and unable to disturb them."""

from expert_worker.tracking.start import start_trackers
from expert_worker.tracking.trackers import Trackers

__all__ = ["Trackers", "start_trackers"]
