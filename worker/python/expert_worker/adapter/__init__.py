"""Adapters: their kinds in one table, and the files of one."""

from expert_worker.adapter.files import CONFIG, WEIGHTS, missing_file
from expert_worker.adapter.kinds import KINDS, AdapterTraits, peft_kinds

__all__ = ["CONFIG", "KINDS", "WEIGHTS", "AdapterTraits", "missing_file", "peft_kinds"]
