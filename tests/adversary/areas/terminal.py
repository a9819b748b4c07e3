"""Text of the worker, of models and of folders on a terminal: shown, but never obeyed by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import cli, world
from tests.adversary.areas.manifests import ESCAPES as X
from tests.adversary.attempt import Area, Attempt

TRAIN = ("train", "-m", "ash", "--device", "cpu")
SAYS: dict[str, tuple[tuple[str, ...], list[list[Any]]]] = {
    "answers of generate": (
        ("generate", "-m", "ash", "--device", "cpu", "--prompt", "hello"),
        [["text", "base", f"an answer {X}"], ["text", "base", ""]],
    ),
    "an answer in pieces": (
        ("generate", "-m", "ash", "--device", "cpu", "--prompt", "hello"),
        [["text", "base", piece] for piece in (*"\x1b]52;c;cHduZWQ=\x07", "\x9b", "2J", "end")],
    ),
    "a stage": (TRAIN, [["stage", "load base", 60.0, f"detail {X}"]]),
    "a warning": (TRAIN, [["warning", "odd", f"a warning {X}", f"a hint {X}"]]),
    "a note": (TRAIN, [["applied", f"key{X}", X, f"Using {X}"]]),
    "a failure": (TRAIN, [["failed", f"a failure {X}", f"a hint {X}", "odd"]]),
    "a recovery": (TRAIN, [["recovered", "out_of_memory", 1, f"a detail {X}"]]),
    "a checkpoint's path": (TRAIN, [["checkpoint", 2, f"/tmp/{X}", 10, 1.0]]),
    "a metric's name": (TRAIN, [["evaluated", 2, {f"metric{X}": 1.0}, 1.0], ["best", 2, f"m{X}", 1.0]]),
    "a result": (TRAIN, [["result", {"ok": True, "adapter": f"/tmp/{X}", "best_checkpoint": X}]]),
    "standard output": (TRAIN, [["stdout", f"a library says {X}\n"]]),
    "the events' pipe": (TRAIN, [["pipe", f"no event {X}\n"], ["advance", "tokenize", 1, 2]]),
    "evaluate's warning": (
        ("evaluate", "-m", "ash", "--device", "cpu", "--base-only"),
        [["warning", "odd", f"a warning {X}", None], ["failed", X, X, "odd"]],
    ),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    if not quick:
        for name in SAYS:
            yield Attempt(name, partial(said_by_worker, name))
    yield Attempt("folders of experts and runs", folders)


def said_by_worker(name: str, folder: Path) -> None:
    expert = world.expert(folder)
    world.write_rows(expert / "test.jsonl", world.rows(count=3))
    words, says = SAYS[name]
    document = json.loads((expert / "manifest.json").read_text())
    document["training"]["dataset"]["test_path"] = "test.jsonl"
    (expert / "manifest.json").write_text(json.dumps(document))
    surroundings = {
        **world.FORGE.environment,
        "EXPERT_TEST_STAGE": "expert_test_attack",
        "ADVERSARY_SAYS": json.dumps(says),
    }
    surroundings["PYTHONPATH"] += f":{cli.ROOT / 'tests/adversary/stage'}"
    said = cli.check(cli.on_terminal(*words, cwd=folder, env=surroundings, seconds=60))
    assert "expert_test_attack" not in said.text, said.text


def folders(folder: Path) -> None:
    odd = "ash" + X.replace("/", "")
    place = folder / odd
    world.write_rows(place / "train.jsonl", world.rows(count=2))
    (place / "manifest.json").write_text(json.dumps(world.manifest("../base")))
    run = place / "weights" / odd
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"result": {"ok": True, "steps": 3}, "recipe": {"expert": odd}}))
    (run / "events.jsonl").write_text("{}\n")
    for words in (("runs", "."), ("validate", "."), ("datasets", "."), ("matrix", "."), ("clean", ".")):
        cli.check(cli.on_terminal(*words, cwd=folder, seconds=20))


AREA = Area("terminal", "worker's text to the terminal, tables", attempts)
