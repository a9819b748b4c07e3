"""Adapters: their kinds in one table, and the files of one."""

from expert_worker.adapter.files import CONFIG, EXPERT, WEIGHTS, check_adapter
from expert_worker.adapter.kinds import KINDS, AdapterTraits, peft_kinds

__all__ = ["CONFIG", "EXPERT", "KINDS", "WEIGHTS", "AdapterTraits", "check_adapter", "peft_kinds"]
