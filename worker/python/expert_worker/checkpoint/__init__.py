"""Checkpoints: committed atomically, verified before use, retained by policy, mirrored in the background."""

from expert_worker.checkpoint.compatible import refuse_unless_same
from expert_worker.checkpoint.record import Facts
from expert_worker.checkpoint.store import Content, Loaded, Store

__all__ = ["Content", "Facts", "Loaded", "Store", "refuse_unless_same"]
