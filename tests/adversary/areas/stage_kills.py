"""kill -9 in pretokenize, evaluate and export; then the same again, which must not notice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary import world
from tests.adversary.attempt import Area, Attempt


def attempts(quick: bool) -> Iterator[Attempt]:
    if quick:
        return
    for number in range(9):
        yield Attempt(f"pretokenize {number}", partial(pretokenize, number))
    yield Attempt("evaluate", evaluate)
    yield Attempt("export", export)


def pretokenize(number: int, folder: Path) -> None:
    data = world.write_rows(folder / "train.jsonl", world.rows(number, count=20_000))
    target = "tests.adversary.inside:pretokenize"
    whole = folder / "whole"
    killed = folder / "killed"
    for place in (whole, killed):
        place.mkdir()
    undisturbed = world.FORGE.call(target, str(whole), str(world.base()), str(data))
    assert undisturbed.code == 0 and undisturbed.value["exit"] == 0, undisturbed.said[-300:]
    moment = random.Random(number).uniform(0.1, 0.95) * undisturbed.seconds
    world.FORGE.call(target, str(killed), str(world.base()), str(data), seconds=moment)
    again = world.inside("pretokenize", str(killed), str(world.base()), str(data))
    assert again["exit"] == 0, again
    caches = [tree(place / "cache") for place in (whole, killed)]
    assert caches[0] == caches[1], "another cache"


def tree(folder: Path) -> dict[str, str]:
    """The Arrow files; the cache's other files hold times and paths."""
    return {path.name: world.digest(path) for path in sorted(folder.rglob("*.arrow"))}


def evaluate(folder: Path) -> None:
    adapter = adapter_in(folder)
    world.write_rows(folder / "train.jsonl", world.rows(count=12))
    target = "tests.adversary.inside:evaluate"
    whole = world.FORGE.call(target, str(folder), str(world.base()), str(adapter), "whole", seconds=200)
    assert whole.code == 0 and whole.value["exit"] == 0, (whole.said[-300:], whole.value)
    arguments = (str(folder), str(world.base()), str(adapter), "killed")
    world.FORGE.call(target, *arguments, seconds=0.6 * whole.seconds)
    again = world.inside("evaluate", *arguments, seconds=200)
    assert again["exit"] == 0, again
    for who in ("base", "adapter"):
        assert again["result"][who] == whole.value["result"][who]


def export(folder: Path) -> None:
    adapter = adapter_in(folder)
    world.write_rows(folder / "train.jsonl", world.rows(count=2))
    target = "tests.adversary.inside:export"
    whole = world.FORGE.call(target, str(folder), str(world.base()), str(adapter), "whole", seconds=200)
    assert whole.code == 0 and whole.value["exit"] == 0, (whole.said[-300:], whole.value)
    arguments = (str(folder), str(world.base()), str(adapter), "killed")
    world.FORGE.call(target, *arguments, seconds=0.6 * whole.seconds)
    again = world.inside("export", *arguments, seconds=200)
    assert again["exit"] == 0, again
    files = [world.snapshot(folder / f"{name}-export") for name in ("whole", "killed")]
    weights = [{n: d for n, d in found.items() if n.endswith(".safetensors")} for found in files]
    assert weights[0] and weights[0] == weights[1], "other weights"


def adapter_in(folder: Path) -> Path:
    adapter = folder / "adapter"
    world.inside("save_adapter", str(adapter), str(world.base()))
    return adapter


AREA = Area("stage_kills", "kills in pretokenize / evaluate / export", attempts)
