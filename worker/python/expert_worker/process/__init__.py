"""Processes: the bond to the CLI, the ranks of one training, the lock of a run's folder."""

from expert_worker.process.parent import bind_to_parent, parent_pid

__all__ = ["bind_to_parent", "parent_pid"]
