"""A real shelf on a tiny base: killed at random moments, and forked workers against separate ones."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import find_cli, manifest_of, rows_of, save_base, surroundings, write_rows
from learnt import assert_learnt
from trials import differing_files

STEPS = 12
# The first two differ in nothing but their rows.
KINDS: dict[str, dict[str, Any]] = {"ash": {}, "birch": {}, "cedar": {"adapter_type": "dora"}}
EXPERTS = tuple(KINDS)
pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(os.name == "nt", reason="kills by signal")]


class Shelf:
    def __init__(self, folder: Path, cli: Path, *, broken: str | None = None) -> None:
        self.folder, self.cli = folder, cli
        folder.mkdir()
        save_base(folder.parent / "base")
        for number, name in enumerate(EXPERTS):
            place = folder / "experts" / name
            place.mkdir(parents=True)
            write_rows(place / "train.jsonl", rows_of(number))
            changes = {"adam_epsilon": 1e-300} if name == broken else KINDS[name]
            (place / "manifest.json").write_text(json.dumps(_manifest(name, changes)))

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        environment = {**surroundings(2), "EXPERT_HOME": str(self.folder.parent / "home")}
        command = [self.cli, "train", "--all", "experts", "--device", "cpu", "--no-evaluate", "--json", *more]
        with (self.folder / "out").open("wb") as out, (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, cwd=self.folder, stdout=out, stderr=log)

    def finish(self, *more: str, code: int = 0) -> dict[str, Any]:
        assert self.start(*more).wait() == code, (self.folder / "log").read_text()[-3000:]
        found: dict[str, Any] = json.loads((self.folder / "out").read_text())
        return found

    def parentage(self, process: subprocess.Popen[bytes]) -> str:
        """The command line of the first expert's worker; a forked one has its parent's."""
        record = self.run(EXPERTS[0]) / "events.jsonl"
        while process.poll() is None:
            text = record.read_text() if record.exists() else ""
            started = [line for line in text.splitlines() if '"type":"started"' in line]
            if started:
                place = Path("/proc") / str(json.loads(started[-1])["body"]["pid"]) / "cmdline"
                return place.read_text() if place.exists() else ""
            time.sleep(0.005)
        return ""

    def run(self, expert: str) -> Path:
        return self.folder / "experts" / expert / "weights" / "base"

    def assert_same(self, other: "Shelf") -> None:
        for expert in EXPERTS:
            for part in ("final", f"checkpoint-{STEPS}"):
                found = differing_files(self.run(expert) / part, other.run(expert) / part)
                assert not found, f"{expert}: {part} differs in {found}"


def _manifest(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    return manifest_of(name, "../../../base", max_steps=STEPS, save_total_limit=2, **changes)


@pytest.fixture(scope="module")
def cli() -> Path:
    found = find_cli()
    if found is None:
        pytest.skip("expert-cli is not built: make setup")
    return found


@pytest.fixture(scope="module")
def undisturbed(quick_folder: Path, cli: Path) -> tuple[Shelf, float]:
    """A whole shelf, and how long it took."""
    place = quick_folder / "shelf"
    place.mkdir()
    shelf = Shelf(place / "undisturbed", cli)
    began = time.monotonic()
    process = shelf.start()
    parentage = shelf.parentage(process)
    assert process.wait() == 0, (shelf.folder / "log").read_text()[-3000:]
    if sys.platform == "linux":
        assert "warm" in parentage, parentage
    return shelf, time.monotonic() - began


def test_each_expert_learns_its_own_rows(undisturbed: tuple[Shelf, float]) -> None:
    shelf, _ = undisturbed
    for expert in EXPERTS:
        assert_learnt(shelf.run(expert))
    ash, birch = ((shelf.run(name) / "final/adapter_model.safetensors").read_bytes() for name in EXPERTS[:2])
    assert ash != birch


@pytest.mark.full
def test_forked_workers_leave_the_bytes_of_separate_ones(undisturbed: tuple[Shelf, float], cli: Path) -> None:
    shelf, _ = undisturbed
    alone = Shelf(shelf.folder.parent / "separate", cli)
    alone.finish("--separate")
    alone.assert_same(shelf)


def test_killed_at_random_moments_and_started_again(
    undisturbed: tuple[Shelf, float], cli: Path, every_trial: bool
) -> None:
    shelf, seconds = undisturbed
    draw = random.Random(17)
    killed = Shelf(shelf.folder.parent / "killed", cli)
    for _ in range(5 if every_trial else 1):
        process = killed.start()
        try:
            process.wait(draw.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    found = killed.finish()
    assert found["ok"] is True
    killed.assert_same(shelf)
    again = killed.finish()
    assert [one["finished_before"] for one in again["experts"]] == [True] * len(EXPERTS)


@pytest.mark.full
def test_an_expert_that_fails_in_training_leaves_the_rest(
    undisturbed: tuple[Shelf, float], cli: Path
) -> None:
    shelf, _ = undisturbed
    failing = Shelf(shelf.folder.parent / "failing", cli, broken="birch")
    found = failing.finish(code=1)
    assert [one["ok"] for one in found["experts"]] == [True, False, True]
    assert found["experts"][1]["error"]["code"] == "diverged"
    assert not differing_files(failing.run("cedar") / "final", shelf.run("cedar") / "final")
