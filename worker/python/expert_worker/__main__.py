"""`python -m expert_worker <stage> --plan plan.json`: what the CLI starts."""

import argparse
import os
import sys
from pathlib import Path

from pydantic import JsonValue

from expert_worker.crash import ending_of
from expert_worker.errors import BadInput, ExpertError
from expert_worker.events import Events
from expert_worker.events.models import Task
from expert_worker.events.sinks import Pipe, Record
from expert_worker.exit import Exit
from expert_worker.heartbeat import heartbeat
from expert_worker.imports import quick_imports
from expert_worker.plan import Plan, load_plan
from expert_worker.process import bind_to_parent, run_lock
from expert_worker.process.leader import lead, leads
from expert_worker.process.leave import leave
from expert_worker.process.rank import follow_leader, has_leader, is_main_process
from expert_worker.stages import IMPORT_BUDGET, READS_STDIN, RECORDED, STAGES, find_stage, loads_torch
from expert_worker.stop import Stop
from expert_worker.terminal import report_failure


def main(arguments: list[str] | None = None) -> int:
    # To find plugins, pydantic reads the entry points of every installed package: a tenth of a start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    parser = argparse.ArgumentParser(prog="python -m expert_worker", description=__doc__)
    parser.add_argument("stage", choices=[*STAGES, "doctor", "prove", "warm"])
    parser.add_argument(
        "--plan",
        type=Path,
        action="append",
        help="the plan.json that expert-cli wrote; several train their experts fused",
    )
    parser.add_argument("--home", type=Path, help="where `prove` keeps what it finds")
    parser.add_argument("--card", type=int, help="the GPU that `prove` uses")
    parser.add_argument("--named", help="what the GPU's driver calls it")
    parser.add_argument("--format", help="the only number format that `prove` tries")
    options = parser.parse_args(arguments)
    if options.stage == "warm":
        from expert_worker.warm import serve

        return serve()
    run_lock.hold_inherited()
    bind_to_parent(reads_stdin=options.stage in READS_STDIN or has_leader())
    if options.stage == "doctor":
        from expert_worker.probe import print_probe

        print_probe()
        return Exit.DONE
    if options.stage == "prove":
        if options.home is None:
            parser.error("--home is required")
        from expert_worker.prove import Asked, print_proof

        asked = Asked(options.home, options.card, options.named, options.format)
        print_proof(asked, Pipe.of_stdout())
        return Exit.DONE
    if options.plan is None:
        parser.error("--plan is required")
    if len(options.plan) > 1:
        from expert_worker.together import carry_out_fused

        return carry_out_fused(options.plan, Pipe.of_stdout())
    return carry_out(options.stage, options.plan[0], Pipe.of_stdout())


def carry_out(stage: Task, plan_path: Path, pipe: Pipe) -> int:
    """Every way out of a stage passes here and leaves its last line: `finished` or `failed`; of processes
    that work together, the first one's does."""
    plan: Plan | None = None
    events = Events([pipe], task=stage)
    try:
        _hear_of_stops(events.stop)
        plan = load_plan(plan_path)
        ended = lead(plan, plan_path, pipe, events.stop) if leads(plan) else None
        if isinstance(ended, int):
            return ended
        events = _events_for(plan, pipe, events)
        if ended is not None:
            raise ended
        with heartbeat(events):
            result = _run(stage, plan, events)
        events.finished(result)
        code = Exit.DONE
    except BaseException as error:
        known = ending_of(error, stage, plan)
        events.failed(known)
        code = known.exit_code
    finally:
        events.close()
        sys.stderr.flush()
    return code


def _hear_of_stops(stop: Stop) -> None:
    if has_leader():
        follow_leader(stop)
    else:
        stop.install()


def _events_for(plan: Plan, pipe: Pipe, early: Events) -> Events:
    record, is_recorded = None, plan.request.stage in RECORDED
    folder = Path(plan.machine.paths.output)
    if is_recorded and is_main_process():
        record = Record(folder / "events.jsonl")
    # Elsewhere the file may be left of an earlier attempt.
    if (is_recorded or run_lock.is_held()) and is_main_process():
        early.stop.watch(folder)
    events = Events([pipe], record, task=plan.request.stage, recipe_digest=plan.recipe_digest)
    events.stop = early.stop
    return events


def _run(stage: Task, plan: Plan, events: Events) -> JsonValue:
    if plan.request.stage != stage:
        raise BadInput(f"The plan asks for {plan.request.stage}, not for {stage}", code="bad-plan")
    if stage not in RECORDED:
        events.begin()
    if loads_torch(stage):
        events.stage("load libraries", IMPORT_BUDGET)
    with quick_imports():
        run = find_stage(stage)
    events.stop.raise_if_requested()
    return run(plan, events)


if __name__ == "__main__":
    try:
        code = main()
    except ExpertError as error:
        code = report_failure(error)
    leave(code)
