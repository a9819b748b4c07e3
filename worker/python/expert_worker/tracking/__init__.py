"""TensorBoard and W&B, derived from the events and unable to disturb them."""

from expert_worker.tracking.trackers import Trackers, start_trackers

__all__ = ["Trackers", "start_trackers"]
