"""What a run leaves behind for people: `final/` with its model card, and `run.json`."""

from expert_worker.run_record.card import Outcome
from expert_worker.run_record.final import adapter_config, adapter_tensors, write_final
from expert_worker.run_record.record import write_run_record

__all__ = [
    "Outcome",
    "adapter_config",
    "adapter_tensors",
    "write_final",
    "write_run_record",
]
