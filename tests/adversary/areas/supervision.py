"""Two command lines at once, signals at any moment, restarts without a pause, and tight limits."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from tests.adversary import cli, world
from tests.adversary.areas.shelf import alive
from tests.adversary.attempt import DOCUMENTED, Area, Attempt

LONG = {"max_steps": 12, "save_steps": 2}


@cache
def undisturbed() -> tuple[str, float]:
    folder = world.FOLDER / "supervised"
    place = world.expert(folder, LONG)
    said = cli.check(world.train(place), {0})
    return world.adapter_of(world.run_of(place)), said.seconds


def attempts(quick: bool) -> Iterator[Attempt]:
    if quick:
        return
    for number in range(6):
        yield Attempt(f"two command lines {number}", partial(two, number))
    for name, sent, times, count in (
        ("Ctrl-C", signal.SIGINT, 1, 8),
        ("terminated", signal.SIGTERM, 1, 4),
        ("hung up", signal.SIGHUP, 1, 4),
        ("Ctrl-C twice", signal.SIGINT, 2, 2),
    ):
        for number in range(count):
            yield Attempt(f"{name} {number}", partial(stopped, sent, times, number))
    yield Attempt("worker held and let go", partial(held, True))
    yield Attempt("command line held and let go", partial(held, False))
    for number in range(15):
        yield Attempt(f"killed and restarted at once {number}", restarted)
    for name in LIMITS:
        yield Attempt(name, partial(limited, name))


def start(place: Path, *words: str, prepare: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
    log = (place.parent / "log").open("ab")
    return subprocess.Popen(
        [str(cli.binary()), "train", "-m", str(place), "--device", "cpu", *words],
        cwd=place.parent,
        env=cli.environment(place.parent, world.FORGE.environment),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        preexec_fn=prepare,  # noqa: PLW1509
    )


def ended(process: subprocess.Popen[bytes], seconds: float = 180) -> int:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"no end within {seconds:g} s") from None


def said(place: Path) -> bytes:
    return (place.parent / "log").read_bytes()


def in_words(place: Path, code: int) -> None:
    text = said(place)
    assert code in DOCUMENTED, f"exit {code}: {text[-300:]!r}"
    assert not cli.UNFORESEEN.search(text), text[-300:]
    assert text.strip()


def finish(place: Path) -> None:
    whole, _ = undisturbed()
    process = start(place, "--resume")
    code = ended(process)
    assert code == 0, f"exit {code} at the end: {said(place)[-300:]!r}"
    assert world.adapter_of(world.run_of(place)) == whole, "other bytes"


def at_a_moment(place: Path, process: subprocess.Popen[bytes], draw: random.Random) -> None:
    """In any phase: before the worker, while it loads, or at a step."""
    _, seconds = undisturbed()
    try:
        process.wait(draw.uniform(0.02, 0.9) * seconds)
    except subprocess.TimeoutExpired:
        return


def stopped(sent: signal.Signals, times: int, number: int, folder: Path) -> None:
    undisturbed()
    place = world.expert(folder, LONG)
    process = start(place)
    at_a_moment(place, process, random.Random(f"{sent}{times}{number}"))
    for _ in range(times):
        if process.poll() is None:
            process.send_signal(sent)
            # What comes within half a second does not count as the second.
            time.sleep(0.6)
    code = ended(process)
    in_words(place, code)
    assert code in {0, 130, 143} or times == 2, f"exit {code}: {said(place)[-300:]!r}"
    finish(place)


def two(number: int, folder: Path) -> None:
    whole, _ = undisturbed()
    place = world.expert(folder, LONG)
    first = start(place)
    time.sleep(random.Random(number).uniform(0, 0.8))
    second = start(place)
    codes = [ended(first), ended(second)]
    for code in codes:
        in_words(place, code)
    assert 0 in codes and set(codes) <= {0, 2, 5}, codes
    assert world.adapter_of(world.run_of(place)) == whole, "other bytes"


def held(of_worker: bool, folder: Path) -> None:
    place = world.expert(folder, LONG)
    process = start(place)
    at_a_moment(place, process, random.Random(3))
    target = worker_of(place) if of_worker else process.pid
    if target is not None and process.poll() is None:
        os.kill(target, signal.SIGSTOP)
        time.sleep(3)
        os.kill(target, signal.SIGCONT)
    code = ended(process)
    assert code == 0, f"exit {code}: {said(place)[-300:]!r}"
    finish(place)


def worker_of(place: Path) -> int | None:
    record = world.run_of(place) / "events.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    started = [json.loads(line)["body"] for line in lines if '"type":"started"' in line]
    return int(started[-1]["pid"]) if started else None


def restarted(folder: Path) -> None:
    """A real worker's process without its libraries: what counts is who holds the folder."""
    place = world.expert(folder, LONG)
    environment = cli.environment(folder, {"EXPERT_TEST_STAGE": "expert_test_stage"})
    environment["PYTHONPATH"] = f"{cli.ROOT / 'worker/python'}:{cli.ROOT / 'tests/cli/stage'}"
    environment["EXPERT_TEST_PID_FILE"] = str(folder / "pid")

    def begin(acts: str) -> subprocess.Popen[bytes]:
        log = (folder / "log").open("ab")
        return subprocess.Popen(
            [str(cli.binary()), "train", "-m", str(place), "--device", "cpu", "--resume"],
            cwd=folder,
            env={**environment, "EXPERT_TEST_ACTS": acts},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

    first = begin("obey")
    deadline = time.monotonic() + 60
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        assert time.monotonic() < deadline and first.poll() is None, (folder / "log").read_text()[-300:]
        time.sleep(0.01)
    worker = int((folder / "pid").read_text())
    first.kill()
    second = begin("steps=2")
    first.wait()
    code = ended(second, 60)
    assert code in {0, 5}, f"exit {code}: {(folder / 'log').read_text()[-300:]}"
    deadline = time.monotonic() + 5
    while alive(worker):
        assert time.monotonic() < deadline, "the old worker lives on"
        time.sleep(0.01)
    assert ended(begin("steps=2"), 60) == 0, (folder / "log").read_text()[-300:]


LIMITS: dict[str, tuple[int, int]] = {
    "files of 20 kB": (resource.RLIMIT_FSIZE, 20_000),
    "files of nothing": (resource.RLIMIT_FSIZE, 0),
    "12 open files": (resource.RLIMIT_NOFILE, 12),
    "24 open files": (resource.RLIMIT_NOFILE, 24),
    "200 MB of addresses for the command line": (resource.RLIMIT_AS, 200 << 20),
}


def limited(name: str, folder: Path) -> None:
    undisturbed()
    kind, limit = LIMITS[name]
    place = world.expert(folder, LONG)
    (place.parent / "log").touch()
    process = start(place, prepare=lambda: resource.setrlimit(kind, (limit, limit)))
    code = ended(process)
    # What it says cannot be kept where no file may grow.
    assert code in DOCUMENTED, f"exit {code}: {said(place)[-300:]!r}"
    assert not cli.UNFORESEEN.search(said(place)), said(place)[-300:]
    finish(place)


AREA = Area(
    "supervision", "supervision: two CLIs, SIGSTOP, Ctrl-C, hang-up, 15 restarts at once, rlimits", attempts
)
