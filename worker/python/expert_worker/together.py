"""Several plans in one process: experts that train fused. Each run has its own events, record and end; all
share the pipe to the CLI, where every line says whose it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from expert_worker.crash import ending_of
from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.events.models import Task
from expert_worker.events.sinks import ExpertPipe, Pipe, Record
from expert_worker.exit import Exit
from expert_worker.heartbeat import heartbeat
from expert_worker.imports import quick_imports
from expert_worker.plan import Plan, load_plan
from expert_worker.stages import IMPORT_BUDGET
from expert_worker.stop import Stop

if TYPE_CHECKING:
    from expert_worker.train.fused import FusedGroup, Member

_STAGE: Task = "train"


@dataclass
class _Run:
    plan: Plan
    events: Events
    code: int | None = None
    """Known once it has ended."""

    def carry_out(self, group: FusedGroup, member: Member) -> None:
        from expert_worker.train.stage import run

        try:
            with heartbeat(self.events):
                result = group.carry_out(member, lambda: run(self.plan, self.events, member))
            self.events.finished(result)
            self.code = Exit.DONE
        except BaseException as error:
            self.fail(error)
        self.events.close()

    def fail(self, error: BaseException) -> None:
        if self.code is None:
            known = ending_of(error, _STAGE, self.plan)
            self.code = known.exit_code
            self.events.failed(known)


def carry_out_fused(plan_paths: Sequence[Path], pipe: Pipe) -> int:
    """Every run leaves its last line, `finished` or `failed`."""
    common = Events([pipe], task=_STAGE)
    runs: list[_Run] = []
    try:
        common.stop.install()
        plans = [load_plan(path) for path in plan_paths]
        _refuse_unlike(plans)
        lock = threading.Lock()
        runs = [_Run(plan, _events_of(plan, ExpertPipe(pipe, lock, plan.recipe.expert))) for plan in plans]
        for run in runs:
            run.events.stop = Stop(common.stop)
            run.events.stop.watch(Path(run.plan.machine.paths.output))
            run.events.stage("load libraries", IMPORT_BUDGET)
        _train(runs, common.stop)
    except BaseException as error:
        for run in runs:
            run.fail(error)
        if not runs:
            common.failed(ending_of(error, _STAGE, None))
            return ending_of(error, _STAGE, None).exit_code
    finally:
        for run in runs:
            run.events.close()
        pipe.close()
    return next((run.code for run in runs if run.code), int(Exit.DONE))


def _refuse_unlike(plans: Sequence[Plan]) -> None:
    names = [plan.recipe.expert for plan in plans]
    if any(plan.request.stage != _STAGE for plan in plans) or len(set(names)) < len(names):
        raise BadInput("Only training can be fused, and of experts with different names", code="bad-plan")


def _events_of(plan: Plan, pipe: ExpertPipe) -> Events:
    record = Record(Path(plan.machine.paths.output) / "events.jsonl")
    return Events([pipe], record, task=_STAGE, recipe_digest=plan.recipe_digest)


def _train(runs: Sequence[_Run], stop: Stop) -> None:
    """`stop`: the wish that all of them stop. A second signal interrupts the wait for the threads; the
    process ends with them."""
    with quick_imports():
        from expert_worker.train import stage  # noqa: F401
        from expert_worker.train.fused import FusedGroup
    stop.raise_if_requested()
    group = FusedGroup()
    members = [group.member(run.plan.recipe.expert) for run in runs]
    threads = [
        threading.Thread(target=run.carry_out, args=(group, member), name=member.expert, daemon=True)
        for run, member in zip(runs, members, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
