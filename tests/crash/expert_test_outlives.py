"""The real training stage, which the kernel no longer ends with the command line."""

import ctypes
from typing import Any

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import stage

_PR_SET_PDEATHSIG = 1


def run(plan: Plan, events: Events) -> Any:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
    return stage.run(plan, events)
