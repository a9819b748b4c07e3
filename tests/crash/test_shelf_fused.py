"""`train --all` fuses experts by itself where a measurement says that it is faster: each keeps its own end,
whatever becomes of the others of its group."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from experts_folder import ExpertsFolder
from safetensors.torch import load_file
from tiny import apart

pytestmark = [pytest.mark.timeout(1800), pytest.mark.skipif(os.name == "nt", reason="kills by signal")]
NAMES = ("ash", "birch", "cedar")
FASTER = {"1": 1000.0, "2": 1600.0, "4": 2000.0}
SLOWER = {"1": 1000.0, "2": 1050.0, "4": 1100.0}
SHELF = ("train", "--all", "--device", "cpu", "--no-evaluate", "--jobs", "1")


class Shelf(ExpertsFolder):
    """Three experts of one shape that one slot would train one after another."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NAMES)
        self.clear()

    def change(self, name: str, **settings: object) -> None:
        self.set_up(name, **{"packing": False, "max_steps": 8, "save_steps": 2, **settings})

    def clear(self) -> None:
        super().clear()
        for name in NAMES:
            self.change(name)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return self.start(*SHELF, *words)

    def stop(self, expert: str) -> tuple[int, str]:
        """The exit code of `expert-cli stop`, and what it says."""
        ended = self.finish("stop", f"experts/{expert}")
        return ended.returncode, ended.stderr

    def train(self, *words: str, code: int = 0) -> str:
        """What it says."""
        ended = self.finish(*SHELF, *words)
        assert ended.returncode == code, ended.stderr[-3000:]
        return ended.stdout + ended.stderr

    def plan(self) -> dict[str, Any]:
        ended = self.finish(*SHELF, "--dry-run", "--json")
        assert ended.returncode == 0, ended.stderr[-3000:]
        document: dict[str, Any] = json.loads(ended.stdout)
        return document

    def find(self, measured: dict[str, float] | None) -> None:
        """As if a probe had found it."""
        shapes = self.plan()["shapes"]
        assert [set(shape["experts"]) for shape in shapes] == [set(NAMES)]
        file = Path(shapes[0]["file"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if measured is not None:
            file.write_text(json.dumps({"tokens_per_second": measured}))

    def companions(self, name: str) -> list[str] | None:
        """Of its newest attempt."""
        lines = (self.run_of(name) / "events.jsonl").read_text().splitlines()
        bodies = [json.loads(line)["body"] for line in lines]
        begun = max(place for place, body in enumerate(bodies) if body["type"] == "started")
        applied = [body for body in bodies[begun:] if body["type"] == "applied" and body["key"] == "fused"]
        return applied[0]["value"] if applied else None

    def locked(self, name: str) -> dict[str, Any]:
        lock = json.loads((self.expert(name) / "expert.lock").read_text())
        result: dict[str, Any] = lock["adapters"]["base"]["result"]
        return result


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    yield Shelf(tmp_path_factory.mktemp("fused-shelf"))


@pytest.fixture(scope="module")
def alone(shelf: Shelf) -> dict[str, Path]:
    """Each expert's adapter as it is without a group."""
    shelf.clear()
    shelf.find(FASTER)
    assert "train fused" not in shelf.train("--no-fuse")
    found = {}
    for name in NAMES:
        assert shelf.companions(name) is None and "fused" not in shelf.locked(name)
        found[name] = shelf.folder / f"{name}.safetensors"
        shutil.copy(shelf.run_of(name) / "final" / "adapter_model.safetensors", found[name])
    return found


def assert_same(run: Path, alone: Path) -> None:
    ours, theirs = load_file(run / "final" / "adapter_model.safetensors"), load_file(alone)
    assert max(apart(ours[name], theirs[name]) for name in theirs) < 1e-5


def test_a_verdict_fuses_the_shelf_and_the_lock_says_so(shelf: Shelf, alone: dict[str, Path]) -> None:
    shelf.clear()
    shelf.find(FASTER)
    assert [one["fused_with"] for one in shelf.plan()["experts"]] == [
        [other for other in NAMES if other != name] for name in NAMES
    ]
    said = shelf.train()
    assert "ash, birch, cedar train fused, in a group of 3: 1.60x" in said and "--no-fuse" in said
    assert "measuring" not in said, "the verdict is reused"
    for name in NAMES:
        assert shelf.companions(name) is not None
        assert_same(shelf.run_of(name), alone[name])
        assert shelf.locked(name)["fused"] is True
    assert "train fused" not in shelf.train(), "all are finished"


def test_experts_that_gain_little_or_have_bytes_to_keep_train_separately(
    shelf: Shelf, alone: dict[str, Path]
) -> None:
    shelf.clear()
    shelf.find(SLOWER)
    said = shelf.train("--max-steps", "2")
    assert "ash, birch, cedar train separately: fused gains 1.05x" in said
    assert all(shelf.companions(name) is None for name in NAMES)
    # The lock has the bytes that each has alone: the same inputs make them again.
    shelf.clear()
    shelf.find(FASTER)
    shelf.train("--no-fuse")
    locks = {name: shelf.locked(name) for name in NAMES}
    assert "train fused" not in shelf.train("--fresh")
    assert {name: shelf.locked(name) for name in NAMES} == locks
    assert "train fused" not in shelf.train("--fresh", "--locked")


def newest(run: Path) -> int:
    steps = [path.name.removeprefix("checkpoint-") for path in run.glob("checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_shelf_continues_as_it_was_begun(shelf: Shelf, alone: dict[str, Path], by: int) -> None:
    shelf.clear()
    shelf.find(FASTER)
    stop_after(shelf, 2, by)
    assert any(shelf.companions(name) for name in NAMES)
    shelf.find(FASTER)
    assert "train fused" in shelf.train()
    for name in NAMES:
        assert_same(shelf.run_of(name), alone[name])


def test_a_run_that_was_begun_alone_is_not_fused(shelf: Shelf, alone: dict[str, Path]) -> None:
    shelf.clear()
    stop_after(shelf, 2, signal.SIGINT, "--no-fuse")
    begun = [name for name in NAMES if newest(shelf.run_of(name))]
    assert begun
    shelf.train()
    for name in begun:
        assert shelf.companions(name) is None
        ours = (shelf.run_of(name) / "final" / "adapter_model.safetensors").read_bytes()
        assert ours == alone[name].read_bytes()


def stop_after(shelf: Shelf, step: int, by: int, *words: str) -> None:
    process = shelf.begin(*words)
    deadline = time.monotonic() + 600
    while max(newest(shelf.run_of(name)) for name in NAMES) < step and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    process.send_signal(by)
    _, said = process.communicate(timeout=300)
    assert process.returncode == (130 if by == signal.SIGINT else -by), said[-3000:]


def test_what_ends_one_of_a_group_leaves_the_others(shelf: Shelf, alone: dict[str, Path]) -> None:
    shelf.clear()
    shelf.find(FASTER)
    # Too small a number to divide by: its first step is not finite. The shape of a pass is the same.
    shelf.change("birch", adam_epsilon=1e-300)
    # Its folder is another program's: refused before the worker starts.
    foreign = shelf.run_of("cedar") / "final" / "notes.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    document = json.loads(shelf.train("--json", code=1).splitlines()[0])
    experts = {one["expert"]: one for one in document["experts"]}
    assert experts["ash"]["ok"] and shelf.companions("ash") == ["birch"]
    assert experts["birch"]["error"]["code"] == "diverged"
    assert experts["cedar"]["error"]["code"] == "not-a-run" and foreign.read_text() == "mine"
    assert_same(shelf.run_of("ash"), alone["ash"])


def test_a_probe_measures_once(shelf: Shelf) -> None:
    shelf.clear()
    for name in NAMES:
        shelf.change(name, max_steps=1000)
    shelf.find(None)
    document = shelf.plan()
    assert document["shapes"][0]["measured"] is None
    file = Path(document["shapes"][0]["file"])
    process = shelf.begin()
    deadline = time.monotonic() + 600
    while not file.exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and "measuring whether 3 experts train faster fused" in said
    found = json.loads(file.read_text())["tokens_per_second"]
    assert set(found) == {"1", "2", "4"} and all(rate > 0 for rate in found.values())
    assert shelf.plan()["shapes"][0]["measured"]["tokens_per_second"] == found


def test_one_of_a_group_is_stopped_from_outside(shelf: Shelf) -> None:
    shelf.clear()
    for name in NAMES:
        shelf.change(name, max_steps=4000 if name == "birch" else 60)
    shelf.find(FASTER)
    process = shelf.begin("--json")
    deadline = time.monotonic() + 600
    while newest(shelf.run_of("birch")) < 2 and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    code, told = shelf.stop("birch")
    assert code == 0 and "birch: asked to save and end" in told
    out, said = process.communicate(timeout=900)
    assert process.returncode == 1, said[-3000:]
    experts = {one["expert"]: one for one in json.loads(out)["experts"]}
    assert experts["ash"]["result"]["steps"] == experts["cedar"]["result"]["steps"] == 60
    assert experts["birch"]["error"]["code"] == "interrupted" and experts["birch"]["exit"] == 130
    saved = newest(shelf.run_of("birch"))
    assert 2 <= saved < 4000
    code, told = shelf.stop("birch")
    assert code == 0 and "no training is running in" in told
    # The request was for that attempt: another one goes further, until it is stopped too.
    process = shelf.begin("--only", "birch")
    while newest(shelf.run_of("birch")) < saved + 4 and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.02)
    assert shelf.stop("birch")[0] == 0
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said[-3000:]
    # Every second step is evaluated, so that the stop may come during an evaluation.
    stopped = ("error: birch: Stopped after step", "error: birch: Stopped during an evaluation")
    assert any(one in said for one in stopped), said[-3000:]
