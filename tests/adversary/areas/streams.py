"""Standard streams that are closed, full or gone, and commands that must not care."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary import cli, world
from tests.adversary.attempt import DOCUMENTED, Area, Attempt
from tests.adversary.cli import UNFORESEEN

COMMANDS = {
    "validate": ("validate", "ash"),
    "plan": ("plan", "-m", "ash", "--device", "cpu"),
    "plan --json": ("plan", "-m", "ash", "--device", "cpu", "--json"),
    "schema": ("schema",),
    "datasets": ("datasets", "ash"),
    "matrix": ("matrix", "."),
    "runs": ("runs", "ash"),
    "train --dry-run": ("train", "-m", "ash", "--dry-run", "--device", "cpu"),
    "a command that is not there": ("tain",),
    "a manifest that is not there": ("train", "-m", "nowhere"),
}
WAYS = (
    "stdin closed",
    "stdout closed",
    "stderr closed",
    "all closed",
    "stdout full",
    "stderr full",
    "stdout's reader gone",
)


def attempts(quick: bool) -> Iterator[Attempt]:
    for command in ("plan", "schema") if quick else COMMANDS:
        for way in ("all closed", "stdout full", "stdout's reader gone") if quick else WAYS:
            yield Attempt(f"{command}, {way}", partial(attempt, command, way))


def attempt(command: str, way: str, folder: Path) -> None:
    expert = folder / "ash"
    world.write_rows(expert / "train.jsonl", world.rows(count=2))
    (expert / "manifest.json").write_text(json.dumps(world.manifest("../base")))
    before = world.snapshot(folder)
    closed = {"stdin closed": [0], "stdout closed": [1], "stderr closed": [2], "all closed": [0, 1, 2]}
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    said_path = folder.parent / "stream-said"
    with Path("/dev/full").open("wb") as full, said_path.open("wb") as said:
        streams["stderr"] = said
        if way == "stdout full":
            streams["stdout"] = full
        elif way == "stderr full":
            streams["stderr"] = full
        elif way == "stdout's reader gone":
            read_end, write_end = os.pipe()
            os.close(read_end)
            streams["stdout"] = write_end

        def prepare() -> None:
            # Python ignores SIGPIPE, which a shell's child does not.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            for handle in closed.get(way, []):
                os.close(handle)

        words = [str(cli.binary()), *COMMANDS[command]]
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=cli.environment(folder),
            preexec_fn=prepare,  # noqa: PLW1509
            **streams,
        )
        if way == "stdout's reader gone":
            os.close(streams["stdout"])
        try:
            code = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError("no end within 20 s") from None
    text = said_path.read_bytes()
    assert code in DOCUMENTED or code == -signal.SIGPIPE, f"exit {code}: {text[-300:]!r}"
    assert not UNFORESEEN.search(text), text[-300:]
    assert world.snapshot(folder) == before, "a stream that is closed became one of the expert's files"


AREA = Area("streams", "closed or full stdin, stdout, stderr", attempts)
