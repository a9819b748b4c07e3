"""Events: what the worker reports, one JSON object per line. `emitter` writes them, `sinks` are where they
go, `reader` reads a run's record back, and `models` is generated from the contract crate.
"""

from expert_worker.events.emitter import Events

__all__ = ["Events"]
