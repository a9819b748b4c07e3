"""`python -m expert_worker.train.fuse_probe`: what a shelf gains from training experts of one shape fused.

Reads one line of JSON on standard input: the plan of one of them, the documents of a micro-batch and the
tokens of each, the sizes of groups to try, and the seconds that the turns may take. Prints one line: the
tokens per second of passes one after another, and of a group of each size, on the threads of the plan.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict

from expert_worker.base import load_tokenizer, torch_device
from expert_worker.crash import ending_of
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.process import bind_to_parent
from expert_worker.stop import Stop
from expert_worker.train import adapter, engine, precision
from expert_worker.train.fast.batch import IGNORED, PackedBatch, positions_of
from expert_worker.train.fused import FusedGroup, Member
from expert_worker.train.objective import objective_of
from expert_worker.train.step_graph import captured

# The last part of each document is learned, as of a prompt with its answer.
_LEARNED = 0.3
_UNMEASURED, _ROUNDS = 2, 2


class Wanted(BaseModel):
    model_config = ConfigDict(frozen=True)

    plan: Plan
    documents: int
    tokens: int
    """Of each document."""
    sizes: list[int]
    seconds: float


def measure(wanted: Wanted, stop: Stop) -> dict[str, Any]:
    group, members = _group(wanted.plan, max(wanted.sizes))
    batches = {member: _batch(wanted, seed) for seed, member in enumerate(members)}
    tokens, device = wanted.documents * wanted.tokens, torch_device(wanted.plan.machine.device)
    alone = captured(wanted.plan.machine, members[0].alone, True, wanted.tokens, device, Events())
    sides: dict[int, Callable[[], object]] = {1: lambda: alone.backward(batches[members[0]], 1.0)}
    for size in wanted.sizes:
        sides[size] = _fused(group, members[:size], batches)
    # What one thread computes is not slower because other programs are there; threads wait for each other.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    if device.type == "cuda":
        clock = partial(_when_done, device)
    best = group.compute(lambda: _best(sides, clock, wanted.seconds, stop))
    return {str(size): size * tokens / seconds for size, seconds in best.items()}


def _group(plan: Plan, count: int) -> tuple[FusedGroup, list[Member]]:
    """Experts as they are before their first step."""
    group, members = FusedGroup(), []
    recipe, machine, events = plan.recipe, plan.machine, Events()
    device = torch_device(machine.device)
    precision.prepare(recipe.precision, device, machine.threads.compute, events)
    tokenizer = load_tokenizer(recipe.base, machine.paths, events)
    for number in range(count):
        member = group.member(f"{recipe.expert}-{number}")
        base = member.load_base(recipe.base, machine, events, None)
        own_recipe = recipe.model_copy(update={"seed": recipe.seed + number})
        model = adapter.build(own_recipe, machine.modules, base, tokenizer, 1, events)
        own = engine.build(plan, model, objective_of(recipe), device, events)
        member.engine(own, engine.obstacle_here(model, False, machine))
        members.append(member)
    return group, members


def _batch(wanted: Wanted, seed: int) -> PackedBatch:
    """Ids are small: every vocabulary has them."""
    lengths = (wanted.tokens,) * wanted.documents
    ids = torch.randint(0, 256, (sum(lengths),), generator=torch.Generator().manual_seed(seed))
    labels = torch.full_like(ids, IGNORED)
    learned = max(1, round(wanted.tokens * _LEARNED))
    for number in range(wanted.documents):
        end = (number + 1) * wanted.tokens
        labels[end - learned : end] = ids[end - learned : end]
    # Every token has a key where dropout draws by it.
    return PackedBatch(ids, labels, positions_of(lengths), lengths, torch.arange(1, len(ids) + 1))


def _fused(
    group: FusedGroup, members: Sequence[Member], batches: dict[Member, PackedBatch]
) -> Callable[[], object]:
    one_pass = group.passes(members)
    return lambda: one_pass([batches[member] for member in members])


def _when_done(device: torch.device) -> float:
    """The time at which all that was launched is computed."""
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _best(
    sides: dict[int, Callable[[], object]], clock: Callable[[], float], limit: float, stop: Stop
) -> dict[int, float]:
    """The shortest of several turns each: other programs make a turn longer, never shorter."""
    for work in sides.values():
        # The first turns compile and capture.
        for _ in range(_UNMEASURED):
            work()
    best = dict.fromkeys(sides, float("inf"))
    ends, rounds = time.monotonic() + limit, 0
    while rounds < _ROUNDS or time.monotonic() < ends:
        for size, work in sides.items():
            stop.raise_if_requested()
            began = clock()
            work()
            best[size] = min(best[size], clock() - began)
        rounds += 1
    return best


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")


def main() -> int:
    bind_to_parent(reads_stdin=True)
    stop = Stop()
    stop.install()
    try:
        wanted = Wanted.model_validate_json(sys.stdin.readline())
        _say({"tokens_per_second": measure(wanted, stop)})
    except Exception as error:
        known = ending_of(error, "train", None)
        _say({"failed": str(known)})
        return known.exit_code
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
