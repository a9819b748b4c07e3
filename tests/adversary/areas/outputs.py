"""Output folders that lead elsewhere, are not writable, or hold a user's own files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.attempt import DOCUMENTED, REFUSED, Area, Attempt

SHORT = ("--max-steps", "2")


class Scene:
    """An expert of a download, and beside it the user's home, of which nothing may change."""

    def __init__(self, folder: Path) -> None:
        self.expert = world.expert(folder / "downloaded")
        self.mine = folder / "mine"
        self.mine.mkdir()
        for name in ("bashrc", "authorized_keys", "notes.txt", "final/thesis.tex"):
            path = self.mine / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"mine: {name}\n")
        self.run = world.run_of(self.expert)

    def link(self, name: str, target: Path) -> None:
        path = self.run / name if name else self.run
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def train(self, *words: object) -> cli.Said:
        return world.train(self.expert, *SHORT, *words)


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in () if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> None:
    codes, prepare, words = CASES[name]
    scene = Scene(folder)
    prepare(scene)
    mine, own = world.snapshot(scene.mine), listed(scene.expert)
    said = cli.check(scene.train(*[str(word).replace("{mine}", str(scene.mine)) for word in words]), codes)
    assert world.snapshot(scene.mine) == mine, "the user's files changed"
    # `--fresh` moves what has a name of a run to previous/; all else stays where it is.
    moved = set(listed(scene.run / "previous").values()) if scene.run.is_dir() else set()
    lost = [path for path, text in own.items() if not same(path, text) and text not in moved]
    assert not lost, f"lost or changed: {sorted(map(str, lost))[:4]}"
    if said.code == 0:
        world.inside("adapter_moved", str(scene.run if "-o" not in words else folder / "out"))


def listed(folder: Path) -> dict[Path, str]:
    """Of a file with another name elsewhere only that name is the user's."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path: world.digest(path) for path in files if path.stat().st_nlink == 1}


def same(path: Path, digest: str) -> bool:
    return path.is_file() and world.digest(path) == digest


def linked(name: str, target: str) -> Callable[[Scene], None]:
    return lambda scene: scene.link(name, scene.mine / target)


def own(*names: str) -> Callable[[Scene], None]:
    """Files in the output folder that no run left."""

    def prepare(scene: Scene) -> None:
        for name in names:
            path = scene.run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"mine too: {name}\n")

    return prepare


def weights_linked(scene: Scene) -> None:
    (scene.expert / "weights").symlink_to(scene.mine)


def loop(scene: Scene) -> None:
    scene.link("", scene.run)


def a_file(scene: Scene) -> None:
    scene.run.parent.mkdir()
    scene.run.write_text("a file\n")


def fifo(name: str) -> Callable[[Scene], None]:
    def prepare(scene: Scene) -> None:
        scene.run.mkdir(parents=True)
        os.mkfifo(scene.run / name)

    return prepare


def dangling(scene: Scene) -> None:
    scene.link("", scene.mine / "not-there")


def hard_linked(scene: Scene) -> None:
    scene.run.mkdir(parents=True)
    os.link(scene.mine / "notes.txt", scene.run / "report.html")


def nothing(_scene: Scene) -> None:
    pass


ANY = DOCUMENTED
CASES: dict[str, tuple[frozenset[int] | set[int], Callable[[Scene], None], tuple[str, ...]]] = {
    "events.jsonl is a link": (ANY, linked("events.jsonl", "bashrc"), ()),
    "worker.log is a link": (ANY, linked("worker.log", "authorized_keys"), ()),
    "lock is a link": (ANY, linked("lock", "notes.txt"), ()),
    "run.json is a link": (ANY, linked("run.json", "notes.txt"), ()),
    "plan.json is a link": (ANY, linked("plan.json", "notes.txt"), ()),
    "stop is a link": (ANY, linked("stop", "notes.txt"), ()),
    "report.html is a link": (ANY, linked("report.html", "notes.txt"), ()),
    "tensorboard is a link": (ANY, linked("tensorboard", "final"), ()),
    "final is a link": (ANY, linked("final", "final"), ("--fresh",)),
    "checkpoint-2 is a link": (ANY, linked("checkpoint-2", "final"), ("--fresh",)),
    "the run's folder is a link": (REFUSED, linked("", ""), ()),
    "the run's folder is a link, --fresh": (REFUSED, linked("", ""), ("--fresh",)),
    "weights is a link": (REFUSED, weights_linked, ()),
    "weights is a link, --fresh": (REFUSED, weights_linked, ("--fresh",)),
    "the run's folder is a dangling link": (REFUSED, dangling, ()),
    "a link to itself": (REFUSED, loop, ()),
    "the run's folder is a file": (REFUSED, a_file, ()),
    "events.jsonl is a pipe": (ANY, fifo("events.jsonl"), ()),
    "lock is a pipe": (ANY, fifo("lock"), ()),
    "a hard link": (ANY, hard_linked, ()),
    "own partial and trash files": (
        ANY,
        own("movie.mkv.partial", "notes.trash/a", "x.partial/b", "checkpoint-2.partial.bak"),
        (),
    ),
    "own folders, --fresh": (
        ANY,
        own("final/thesis.tex", "previous/a", "tensorboard/b", "checkpoint-500/c", "checkpoint-7-tool/d"),
        ("--fresh",),
    ),
    "own evaluation.json, --fresh": (ANY, own("evaluation.json", "run.json.bak", "paper.md"), ("--fresh",)),
    "/proc": (REFUSED, nothing, ("-o", "/proc/expert-adversary")),
    "/dev/null": (REFUSED, nothing, ("-o", "/dev/null/x")),
    "a folder beside, by ..": (REFUSED | {0}, nothing, ("-o", "{mine}/../out")),
    "a name of 300 characters": (REFUSED, nothing, ("-o", "{mine}/../" + "x" * 300)),
}
AREA = Area("outputs", "output folders (links, loops, /proc, own files)", attempts)
