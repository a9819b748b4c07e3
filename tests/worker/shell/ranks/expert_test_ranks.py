"""A stage of several ranks: each waits to be stopped, unless its settings say otherwise."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NoReturn

from expert_worker.errors import Missing
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.process.rank import this_rank


def run(plan: Plan, events: Events) -> NoReturn:
    rank = this_rank()
    assert rank is not None
    events.begin()
    events.recovered("out_of_memory", 1, "smaller")
    _note(Path(plan.machine.paths.output) / f"pid-{rank.number}")
    actor, _, act = os.environ.get("EXPERT_TEST_RANK", "").partition(":")
    if actor == str(rank.number):
        _do(act)
    while act == "deaf" or not events.stop_requested:
        time.sleep(0.01)
    raise events.stop.interrupted(f"process {rank.number} stopped")


def _do(act: str) -> None:
    if act == "missing":
        raise Missing("no such thing here", hint="get one")
    if act == "leave":
        os._exit(7)


def _note(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(str(os.getpid()))
    temporary.replace(path)
