"""A disk that fills, a clock that jumps, paths of odd characters, a tag that is not Unicode."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.areas.stage_kills import adapter_in
from tests.adversary.attempt import Area, Attempt


def attempts(quick: bool) -> Iterator[Attempt]:
    if quick:
        return
    if os.geteuid() == 0:
        yield Attempt("a disk of 400 kB, then room", full_disk)
    yield Attempt("the clock a year off, before and after", clock)
    yield Attempt("a path with newline, bidi, quotes", odd_path)
    yield Attempt("a tag that is not Unicode", tag)


def full_disk(folder: Path) -> None:
    place = world.expert(folder)
    whole = world.train(place, "-o", folder / "whole")
    cli.check(whole, {0})
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=True)
    try:
        cli.check(world.train(place, "-o", disk / "out"), {4})
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        cli.check(world.train(place, "-o", disk / "out", "--resume"), {0})
        assert world.adapter_of(disk / "out") == world.adapter_of(folder / "whole"), "other bytes"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def clock(folder: Path) -> None:
    found = world.inside("clock_jumps", str(folder), seconds=200)
    assert found["whole"] == found["resumed"], "other bytes"
    assert found["report"] > 1000


def odd_path(folder: Path) -> None:
    plain, odd = folder / "plain", folder / "a\nb\u202ec\"d'e $(x) é"
    digests = []
    for place in (plain, odd):
        expert = world.expert(place)
        words = ("train", "-m", "ash", "--device", "cpu")
        said = cli.on_terminal(*words, cwd=place, env=world.FORGE.environment, home=folder, seconds=120)
        cli.check(said, {0})
        digests.append(world.adapter_of(world.run_of(expert)))
    assert digests[0] == digests[1], "other bytes"


def tag(folder: Path) -> None:
    adapter = adapter_in(folder)
    rows = [json.dumps({**row, "tags": ["a"]}) for row in world.rows(count=3)]
    rows[1] = rows[1].replace('"a"', '"\\ud800"')
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    value = world.inside("evaluate", str(folder), str(world.base()), str(adapter), "tagged", seconds=120)
    world.refused_or_done(value)
    assert value["exit"] in {0, 2}, value


AREA = Area(
    "oddities", "tmpfs of 400 kB, then room; clock +-1 year; path with newline, bidi, quotes; tag", attempts
)
