"""The real training stage, with a second process that is asked to stop after its first validation row."""

import os
from types import SimpleNamespace
from typing import Any

import expert_test_training

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.process.rank import RANK


def run(plan: Plan, events: Events) -> Any:
    if os.environ.get(RANK) == "1":

        def listen(event: Any, _line: bytes) -> None:
            if event.body.type == "advance" and event.body.stage == "evaluate":
                events.stop.request(terminated=True)

        events.attach(SimpleNamespace(write=listen, close=lambda: None))  # type: ignore[arg-type]
    return expert_test_training.run(plan, events)
