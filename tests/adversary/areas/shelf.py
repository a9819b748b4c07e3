"""A shelf trained by a warm parent: parent, command line and worker killed, and two queues at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.attempt import DOCUMENTED, Area, Attempt

NAMES = ("ash", "birch")
COMMAND = ("train", "--all", "experts", "--device", "cpu", "--no-evaluate")


def shelf(folder: Path) -> None:
    import shutil

    shutil.copytree(world.base(), folder / "base")
    for seed, name in enumerate(NAMES):
        place = folder / "experts" / name
        world.write_rows(place / "train.jsonl", world.rows(seed))
        document = world.manifest("../../base", {"adapter_type": "dora" if seed else "lora"})
        document["name"] = name
        (place / "manifest.json").write_text(json.dumps(document))


def start(folder: Path) -> subprocess.Popen[bytes]:
    log = (folder / "log").open("ab")
    return subprocess.Popen(
        [str(cli.binary()), *COMMAND],
        cwd=folder,
        env=cli.environment(folder, {"PYTHONPATH": str(cli.ROOT / "worker/python")}),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def finish(folder: Path) -> None:
    process = start(folder)
    try:
        code = process.wait(600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError("no end within 600 s") from None
    assert code == 0, (folder / "log").read_text()[-300:]


def digests(folder: Path) -> list[str]:
    return [world.adapter_of(folder / "experts" / name / "weights/base") for name in NAMES]


@cache
def undisturbed() -> list[str]:
    folder = world.FOLDER / "whole-shelf"
    folder.mkdir()
    shelf(folder)
    finish(folder)
    found = digests(folder)
    for name in NAMES:
        world.inside("adapter_moved", str(folder / "experts" / name / "weights/base"))
    assert found[0] != found[1]
    return found


def attempts(quick: bool) -> Iterator[Attempt]:
    if quick:
        return
    for victim in ("command line", "warm parent", "worker"):
        yield Attempt(f"{victim} killed", partial(killed, victim))
    yield Attempt("two queues at once", two_queues)


def processes(top: int) -> list[int]:
    listed = Path(f"/proc/{top}/task/{top}/children")
    try:
        found = [int(child) for child in listed.read_text().split()]
    except OSError:
        return []
    return [*found, *(below for child in found for below in processes(child))]


def killed(victim: str, folder: Path) -> None:
    whole = undisturbed()
    shelf(folder)
    process = start(folder)
    deadline = time.monotonic() + 300
    first = folder / "experts/ash/weights/base"
    while not list(first.glob("checkpoint-*")) and process.poll() is None:
        assert time.monotonic() < deadline, "no checkpoint within 300 s"
        time.sleep(0.005)
    below = processes(process.pid)
    record = (first / "events.jsonl").read_text().splitlines()
    worker = json.loads(next(line for line in record if '"started"' in line))["body"]["pid"]
    parents = [pid for pid in below if b"\0serve\0" in cmdline(pid) and pid != worker]
    target = {"command line": process.pid, "worker": worker, "warm parent": (parents or [process.pid])[0]}[
        victim
    ]
    if process.poll() is None:
        os.kill(target, signal.SIGKILL)
    code = process.wait(300)
    assert code in DOCUMENTED or victim == "command line", f"exit {code}"
    await_death(below)
    finish(folder)
    assert digests(folder) == whole, "other bytes"


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def await_death(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return False


def two_queues(folder: Path) -> None:
    whole = undisturbed()
    shelf(folder)
    both = [start(folder), start(folder)]
    codes = [process.wait(600) for process in both]
    # Each may find an expert in use by the other, which then trains it.
    assert set(codes) <= DOCUMENTED, codes
    assert digests(folder) == whole, "other bytes, or an expert that neither trained"
    finish(folder)
    assert digests(folder) == whole, "other bytes"


AREA = Area("shelf", "shelf: warm parent, command line, worker killed; two queues at once", attempts)
