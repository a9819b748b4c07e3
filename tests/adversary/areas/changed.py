"""The inputs of a run, changed between a kill and `--resume`: refused, or the same bytes."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.areas.damaged_runs import interrupt
from tests.adversary.attempt import Area, Attempt


@cache
def undisturbed() -> tuple[Path, str]:
    folder = world.FOLDER / "before-a-change"
    place = world.expert(folder)
    cli.check(world.train(place), {0})
    return folder, world.adapter_of(world.run_of(place))


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    change, words, env, must_refuse = CASES[name]
    whole, digest = undisturbed()
    shutil.copytree(whole, folder, dirs_exist_ok=True)
    expert = folder / "ash"
    run = world.run_of(expert)
    for path in run.glob("*.json"):
        path.write_text(path.read_text().replace(str(whole), str(folder)))
    interrupt(run, 4)
    change(folder)
    said = cli.check(world.train(expert, "--resume", *words, **env))
    if must_refuse:
        assert said.code == 2, f"exit {said.code}, not a refusal: {said.text[-200:]}"
        assert not (run / "final").exists()
    elif said.code == 0:
        assert world.adapter_of(run) == digest, f"another adapter, in silence: {said.text[-200:]}"


def data(folder: Path) -> None:
    world.write_rows(folder / "ash/train.jsonl", world.rows(seed=40))


def weights(folder: Path) -> None:
    path = folder / "base/model.safetensors"
    content = bytearray(path.read_bytes())
    draw = random.Random(2)
    for _ in range(200):
        content[draw.randrange(len(content) // 2, len(content))] ^= 8
    path.write_bytes(content)


def tokenizer(folder: Path) -> None:
    path = folder / "base/tokenizer.json"
    document = json.loads(path.read_text())
    vocabulary = document["model"]["vocab"]
    vocabulary["S"], vocabulary["T"] = vocabulary["T"], vocabulary["S"]
    path.write_text(json.dumps(document))


def plan_lost(folder: Path) -> None:
    (world.run_of(folder / "ash") / "plan.json").unlink()


def cache_ids(folder: Path) -> None:
    path = next((folder / "ash").rglob("*.arrow"))
    content = bytearray(path.read_bytes())
    place = content.find(world_pattern(content))
    content[place] ^= 1
    path.write_bytes(content)


def world_pattern(content: bytearray) -> bytes:
    """A token id in the middle of the column's values: a small number of four bytes after three like it."""
    for place in range(256, len(content) - 16, 4):
        four = [int.from_bytes(content[at : at + 4], "little") for at in range(place, place + 16, 4)]
        if all(5 < value < 600 for value in four) and len(set(four)) > 2:
            return bytes(content[place : place + 16])
    raise AssertionError("no ids in the cache")


def nothing(_folder: Path) -> None:
    pass


Case = tuple[Callable[[Path], None], tuple[str, ...], dict[str, str], bool]
CASES: dict[str, Case] = {
    "data": (data, (), {}, True),
    "data, --extend": (data, ("--extend", "--max-steps", "10"), {}, True),
    "the base's weights": (weights, (), {}, True),
    "the base's tokenizer": (tokenizer, (), {}, True),
    "threads": (nothing, (), {"OMP_NUM_THREADS": "2"}, False),
    "plan.json lost, other threads": (plan_lost, (), {"OMP_NUM_THREADS": "2"}, False),
    "ids of the token cache": (cache_ids, (), {}, False),
    "a setting": (nothing, ("--set", "training.config.learning_rate=0.02"), {}, True),
}
AREA = Area("changed", "changed between kill and resume (data, base, threads, plan, cache)", attempts)
