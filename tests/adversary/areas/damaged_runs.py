"""Files of a finished or interrupted run zeroed, cut, flipped, lost or renamed; then `train --all` again.

The result must be the undisturbed run's adapter, or a refusal in words; never another adapter in its place.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.attempt import Area, Attempt

FINISHED = (
    "final/adapter_model.safetensors",
    "final/adapter_config.json",
    "final/tokenizer.json",
    "run.json",
    "plan.json",
    "events.jsonl",
    "report.html",
    "checkpoint-6/state.json",
    "checkpoint-6/adapter_model.safetensors",
    "checkpoint-6/optimizer.safetensors",
    "cache:cache.json",
    "cache:arrow",
    "expert:expert.lock",
)
INTERRUPTED = (
    "checkpoint-4/adapter_model.safetensors",
    "checkpoint-4/optimizer.safetensors",
    "checkpoint-4/state.json",
    "events.jsonl",
    "plan.json",
    "cache:arrow",
    "cache:cache.json",
)
DAMAGES = ("zeroed", "cut", "flipped", "lost", "renamed")


@cache
def undisturbed() -> tuple[Path, str]:
    """A finished shelf of one, and its adapter's digest."""
    folder = world.FOLDER / "undisturbed"
    place = world.expert(folder / "shelf")
    cli.check(again(folder), {0})
    return folder, world.adapter_of(world.run_of(place))


def again(folder: Path) -> cli.Said:
    words = ("train", "--all", "shelf", "--separate", "--device", "cpu", "--no-evaluate")
    return cli.run(*words, cwd=folder, env=world.FORGE.environment, seconds=120)


def attempts(quick: bool) -> Iterator[Attempt]:
    if quick:
        return
    for file in FINISHED:
        for damage in DAMAGES:
            yield Attempt(f"finished, {file} {damage}", partial(attempt, file, damage, 6))
    for file in INTERRUPTED:
        for damage in DAMAGES[:4]:
            yield Attempt(f"interrupted, {file} {damage}", partial(attempt, file, damage, 4))
    for name in ("one bit of final", "final lost", "every checkpoint lost"):
        yield Attempt(f"finished, {name}", partial(attempt, name, "", 6))


def attempt(file: str, damage: str, step: int, folder: Path) -> None:
    whole, digest = undisturbed()
    shutil.copytree(whole, folder, dirs_exist_ok=True, symlinks=True)
    expert = folder / "shelf/ash"
    run = world.run_of(expert)
    for path in run.glob("*.json"):
        path.write_text(path.read_text().replace(str(whole), str(folder)))
    if step < 6:
        interrupt(run, step)
    spoil(expert, run, file, damage)
    said = cli.check(again(folder))
    if said.code == 0:
        assert world.adapter_of(run) == digest, f"another adapter, in silence: {said.text[-200:]}"
        lock = json.loads((expert / "expert.lock").read_text())
        assert digest in json.dumps(lock), "expert.lock names another adapter"
    else:
        assert "hint" in said.text, f"a refusal without what to do: {said.text[-300:]}"


def interrupt(run: Path, step: int) -> None:
    """As if it had been killed after that step."""
    shutil.rmtree(run / "final")
    for path in run.glob("checkpoint-*"):
        if int(path.name.split("-")[1]) > step:
            shutil.rmtree(path)
    (run / "run.json").unlink(missing_ok=True)


def spoil(expert: Path, run: Path, file: str, damage: str) -> None:
    if file == "one bit of final":
        path = run / "final/adapter_model.safetensors"
        path.write_bytes(flipped(path.read_bytes(), random.Random(1)))
    elif file == "final lost":
        shutil.rmtree(run / "final")
    elif file == "every checkpoint lost":
        for path in run.glob("checkpoint-*"):
            shutil.rmtree(path)
    else:
        hurt(found(expert, run, file), damage)


def found(expert: Path, run: Path, file: str) -> Path:
    where, _, name = file.rpartition(":")
    if where == "cache":
        caches = [path for path in expert.rglob("cache.json") if run not in path.parents]
        assert len(caches) == 1, caches
        return caches[0] if name == "cache.json" else next(caches[0].parent.rglob("*.arrow"))
    return (expert if where == "expert" else run) / name


def hurt(path: Path, damage: str) -> None:
    content = path.read_bytes()
    if damage == "zeroed":
        path.write_bytes(bytes(len(content)))
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        path.write_bytes(flipped(content, random.Random(path.name)))
    elif damage == "lost":
        path.unlink()
    else:
        path.rename(path.with_name(path.name + ".old"))


def flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content) // 2, len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


AREA = Area(
    "damaged_runs", "run folders damaged (zeroed, cut, flipped, lost, renamed), then train --all", attempts
)
