"""One side of the benchmark: experts fused, one after another, or one alone. The time is that of the steps
after each run's first."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))

from our_side import changes, put_rows
from plans import example_plan
from rows import Pair, packed
from scene import Scene, base, documents

import expert_worker.train  # noqa: F401  (before torch: it sets how OpenMP waits)
from expert_worker.events import Events
from expert_worker.events.models import Event, Progress
from expert_worker.train import stage
from expert_worker.train.fused import FusedGroup


class Clock:
    """When each step ended, by CPU time of the process and by the clock, its tokens and its loss."""

    def __init__(self) -> None:
        self.ends: list[tuple[float, float]] = []
        self.tokens: list[int] = []
        self.losses: list[float] = []

    def write(self, event: Event, line: bytes) -> None:
        del line
        if isinstance(event.body, Progress):
            self.ends.append((time.process_time(), time.perf_counter()))
            self.tokens.append(event.body.tokens)
            self.losses.append(event.body.loss)

    def close(self) -> None:
        """There is nothing to close."""


def main() -> None:
    side, wanted = sys.argv[1], json.loads(sys.argv[2])
    count, scene = wanted["experts"], Scene(**wanted["scene"])
    clocks: list[Clock] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        weights = base(scene, folder / "base")
        pairs = cut(documents(scene, weights), wanted.get("cut"))
        put_rows(packed(pairs, wanted.get("cut", scene.length)))
        runs = []
        for number in range(1 if side == "one" else count):
            own = {"recipe.seed": number, "machine.paths.output": str(folder / f"expert-{number}")}
            events, clock = Events(), Clock()
            events.attach(clock)
            clocks.append(clock)
            runs.append((example_plan(folder, {**changes(scene, weights), **own}), events))
        fused(runs) if side == "fused" else in_turn(runs)
    print(json.dumps(summary(side, clocks)))


def cut(pairs: list[Pair], tokens: int | None) -> list[Pair]:
    """Each row by itself, cut to its last words and the first of its answer."""
    if tokens is None:
        return pairs
    half = tokens // 2
    return [(prompt[-half:], answer[:half]) for prompt, answer in pairs if len(answer) >= half]


def in_turn(runs: list[tuple[Any, Events]]) -> None:
    for plan, events in runs:
        stage.run(plan, events)


def fused(runs: list[tuple[Any, Events]]) -> None:
    group = FusedGroup()
    members = [group.member(f"expert-{number}") for number in range(len(runs))]

    def one(number: int) -> None:
        plan, events = runs[number]
        group.carry_out(members[number], lambda: stage.run(plan, events, members[number]))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def spent(side: str, ends: list[list[float]]) -> float:
    if side == "fused":
        return max(it[-1] for it in ends) - max(it[0] for it in ends)
    return sum(it[-1] - it[0] for it in ends)


def summary(side: str, clocks: list[Clock]) -> dict[str, Any]:
    """Fused runs pass their steps together; one after another the times of all add up."""
    cpu, wall = (spent(side, [[end[kind] for end in clock.ends] for clock in clocks]) for kind in (0, 1))
    return {
        "cpu": cpu,
        "wall": wall,
        "tokens": sum(sum(clock.tokens[1:]) for clock in clocks),
        "losses": [clock.losses for clock in clocks],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
