"""One bit flipped at random in a run's records, 400 times each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt, Tally

FILES = ("events.jsonl", "run.json", "plan.json", "evaluation.json")
FLIPS = 400


def attempts(quick: bool) -> Iterator[Attempt]:
    for file in () if quick else FILES:
        yield Attempt(file, partial(attempt, file, FLIPS))


def attempt(file: str, count: int, folder: Path) -> Tally:
    world.inside("sample_run", str(folder))
    return Tally(count, world.inside("report_flips", str(folder / "out"), file, count, seconds=600))


AREA = Area("report_flips", "report: one-bit flips in events, run, plan, evaluation", attempts)
