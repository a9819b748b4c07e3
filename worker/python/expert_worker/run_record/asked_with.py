"""The system message that questions to an adapter begin with, also to one that is a run's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from expert_worker.adapter import EXPERT
from expert_worker.checkpoint import record
from expert_worker.plan import Data
from expert_worker.pretokenize.system_message import common_system_message
from expert_worker.run_record import final
from expert_worker.run_record.expert import system_message_of


def system_message_for(adapter: Path, data: Data, places: Mapping[str, str]) -> str | None:
    """A checkpoint has no `expert.json`: its run's adapter has, and until that is there the training rows
    say it."""
    if (adapter / EXPERT).is_file() or not (adapter / record.NAME).is_file():
        return system_message_of(adapter)
    of_run = adapter.resolve().parent / final.NAME
    if (of_run / EXPERT).is_file():
        return system_message_of(of_run)
    return common_system_message(data, places)
