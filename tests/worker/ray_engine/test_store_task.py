"""Tasks of nodes that share a store alone: a process with a separate folder each. A stand-in trains."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from s3_server import BUCKET, FULL, SECRET, S3Server

from expert_worker.errors import BadInput
from expert_worker.ray_engine.shelf_store import ShelfStore
from expert_worker.ray_engine.stored_run import StoredRun

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
STANDIN = Path(__file__).with_name("training_standin.py")
EXPERT = "ash/base"
PATIENCE = 60.0


class Shelf:
    """The driver's machine."""

    def __init__(self, folder: Path, url: str) -> None:
        self.expert = folder / "experts" / "ash"
        self.expert.mkdir(parents=True)
        (folder / "base").mkdir()
        (folder / "base" / "config.json").write_text("{}")
        (self.expert / "train.jsonl").write_text("rows\n")
        (self.expert / "manifest.json").write_text('{"base": "../../base", "data": "train.jsonl"}')
        self.run = self.expert / "weights" / "base"
        self.run.mkdir(parents=True)
        self.gate = folder / "gate"
        self.store = ShelfStore(url)
        self.stored = StoredRun(self.store._store, EXPERT)
        self.paths = {
            "expert": EXPERT,
            "expert_dir": str(self.expert),
            "manifest": str(self.expert / "manifest.json"),
            "run": str(self.run),
            "cache": str(self.expert / "cache"),
            "inputs": [str(self.expert / "train.jsonl"), str(folder / "base")],
        }

    def order(self, succeeds: int | None = None, patience: float = PATIENCE) -> dict[str, Any]:
        options = {"manifest": self.paths["manifest"], "model": None, "allow_path": []}
        training = {"options": options, "run": {}, "succeeds": succeeds, "stall_seconds": patience}
        return self.store.for_task({"code": {}, "training": training}, self.paths)

    def saved(self) -> int:
        """The newest checkpoint's step in the store."""
        found = self.stored.newest()
        names = found.files if found else {}
        found_steps = re.findall(r"checkpoint-(\d+)/state\.json", "\n".join(names))
        return max(map(int, found_steps), default=0)

    def bring(self, token: int) -> None:
        warned: list[str] = []
        self.store.bring(self.paths, token, warned.append)
        assert warned == []

    def adapter(self) -> str:
        return (self.run / "final" / "adapter_model.safetensors").read_text()


class Node:
    def __init__(self, folder: Path, order: dict[str, Any], gate: Path, pause_at: int = 1000) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        cli = folder / "expert-cli"
        cli.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}"\n')
        cli.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "expert_worker.ray_engine.store_task", "--cli", str(cli)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "log").open("ab"),
            env={
                **os.environ,
                "EXPERT_HOME": str(folder),
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PAUSE_AT": str(pause_at),
                "GATE": str(gate),
            },
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def lines(self) -> list[Any]:
        assert self.process.stdout is not None and self.process.stdin is not None
        said = [json.loads(line) for line in self.process.stdout]
        self.process.stdin.close()
        self.process.wait()
        assert said, (self.folder / "log").read_text()
        return said


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def failed(lines: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = lines[-1]["failed"]
    return found


@pytest.fixture
def shelf(shelf_url: str, tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "driver", shelf_url)


@pytest.fixture
def expected(tmp_path: Path) -> str:
    """The adapter of an undisturbed run in one folder."""
    plain = Shelf(tmp_path / "plain", f"file://{tmp_path}/unused")
    order = {"training": {"options": {"manifest": plain.paths["manifest"]}}}
    subprocess.run(
        [sys.executable, STANDIN],
        input=json.dumps(order).encode() + b"\n",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return plain.adapter()


def finish(shelf: Shelf, folder: Path, succeeds: int | None = None) -> list[Any]:
    lines = Node(folder, shelf.order(succeeds), shelf.gate).lines()
    assert "trained" in lines[-1], lines
    token = next(line["stored"] for line in lines if "stored" in line)
    shelf.bring(token)
    return lines


def tasks_of(node: Path) -> list[Path]:
    return list((node / "shelf" / "tasks").iterdir())


def begun_at(lines: list[Any]) -> int:
    found = [line["remark"] for line in lines if str(line.get("remark", "")).startswith("begun at ")]
    return int(found[0].split()[-1])


def test_a_node_leaves_in_the_experts_folder_what_one_machine_leaves(
    shelf: Shelf, expected: str, tmp_path: Path
) -> None:
    (shelf.run / "notes.txt").write_text("mine")
    lines = finish(shelf, tmp_path / "node")
    assert shelf.adapter() == expected
    assert (shelf.expert / "expert.lock").read_text() == expected
    assert json.loads((shelf.run / "run.json").read_text()) == {"output": str(shelf.run)}
    assert lines[-1]["trained"]["result"] == {"output": str(shelf.run)}
    names = sorted(path.name for path in shelf.run.iterdir())
    assert names == ["checkpoint-36", "checkpoint-40", "events.jsonl", "final", "notes.txt", "run.json"]
    assert not tasks_of(tmp_path / "node"), "nothing stays on the node"
    # Another machine of the user's, whose folder has no run.
    shutil.rmtree(shelf.run)
    shelf.run.mkdir()
    (shelf.expert / "expert.lock").unlink()
    again = finish(shelf, tmp_path / "other")
    assert again[-1]["trained"]["before"] and shelf.adapter() == expected
    assert (shelf.expert / "expert.lock").read_text() == expected


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_another_node_continues_for_one_that_is_lost(
    shelf: Shelf, expected: str, tmp_path: Path, how: str
) -> None:
    lost = Node(tmp_path / "lost", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    assert lost.process.stdout is not None
    assert any(b'"kept"' in line for line in lost.process.stdout), "said once a checkpoint is in the store"
    lost.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    lines = finish(shelf, tmp_path / "node", succeeds=1)
    assert begun_at(lines) == 16 and shelf.adapter() == expected
    if how == "paused":
        shelf.gate.touch()
        lost.signal(signal.SIGCONT)
        ended = failed(lost.lines())
        assert (ended["exit"], ended["code"]) == (5, "lease-lost"), ended
        newest = shelf.stored.newest()
        assert newest is not None and newest.token == 2
        shelf.bring(2)
        assert shelf.adapter() == expected
    else:
        lost.process.wait()


def test_experts_of_one_name_in_two_stores_share_a_node(expected: str, tmp_path: Path) -> None:
    node = tmp_path / "node"
    first = Shelf(tmp_path / "first", f"file://{tmp_path}/first-store")
    living = Node(node, first.order(), first.gate, pause_at=18)
    until(lambda: first.saved() >= 16)
    second = Shelf(tmp_path / "second", f"file://{tmp_path}/second-store")
    killed = Node(node, second.order(), second.gate, pause_at=18)
    until(lambda: second.saved() >= 16)
    killed.signal(signal.SIGKILL)
    killed.lines()
    assert len(tasks_of(node)) == 2
    finish(second, node, succeeds=1)
    assert second.adapter() == expected
    assert len(tasks_of(node)) == 1, "of the task that lives"
    first.gate.touch()
    assert "trained" in living.lines()[-1]
    first.bring(1)
    assert first.adapter() == expected
    assert not tasks_of(node)


def test_a_stop_saves_and_another_start_continues(shelf: Shelf, expected: str, tmp_path: Path) -> None:
    node = Node(tmp_path / "node", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    node.process.send_signal(signal.SIGTERM)
    assert failed(node.lines())["exit"] == 143
    assert shelf.saved() == 19
    assert begun_at(finish(shelf, tmp_path / "other")) == 19 and shelf.adapter() == expected


def test_a_run_that_the_experts_folder_holds_is_continued(
    shelf: Shelf, expected: str, tmp_path: Path
) -> None:
    node = Node(tmp_path / "node", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    node.process.send_signal(signal.SIGTERM)
    node.lines()
    shelf.bring(1)
    elsewhere = Shelf.__new__(Shelf)
    elsewhere.__dict__ |= shelf.__dict__
    elsewhere.store = ShelfStore(f"file://{tmp_path}/elsewhere")
    assert begun_at(finish(elsewhere, tmp_path / "other")) == 19 and shelf.adapter() == expected


def test_a_run_that_was_finished_here_since_replaces_the_one_in_the_store(
    shelf: Shelf, expected: str, tmp_path: Path
) -> None:
    finish(shelf, tmp_path / "node")
    # `train --fresh` on this machine.
    (shelf.run / "final" / "adapter_model.safetensors").write_text("newer")
    (shelf.run / "run.json").write_text('{"output": "of here"}')
    order = shelf.order()
    lines = Node(tmp_path / "other", order, shelf.gate).lines()
    shelf.bring(2)
    assert lines[-1]["trained"]["before"] and shelf.adapter() == "newer"
    # The same order again, after its task was lost in the run that follows.
    follows = StoredRun(shelf.store._store, EXPERT)
    follows.take("a task that is lost", succeeds=2)
    (tmp_path / "events.jsonl").touch()
    follows.publish({"events.jsonl": tmp_path / "events.jsonl"}, {}, lambda text: text)
    follows.release()
    lines = Node(tmp_path / "third", order, shelf.gate).lines()
    assert begun_at(lines) == 0 and not lines[-1]["trained"]["before"], lines
    assert not shelf.order()["storage"]["inputs"]["seed"], "the store has had it"
    shelf.bring(4)
    assert shelf.adapter() == expected


def test_a_store_that_refuses_in_mid_run_loses_nothing(s3: S3Server, tmp_path: Path, expected: str) -> None:
    shelf = Shelf(tmp_path / "driver", f"s3://{BUCKET}/shelf")
    node = Node(tmp_path / "node", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    s3.refusal = FULL
    shelf.gate.touch()
    ended = failed(node.lines())
    assert (ended["exit"], ended["code"]) == (4, "storage") and f"s3://{BUCKET}/shelf" in ended["message"]
    s3.refusal = None
    assert begun_at(finish(shelf, tmp_path / "other", succeeds=1)) >= 16
    assert shelf.adapter() == expected


def test_a_store_that_is_away_for_a_while_changes_nothing(
    s3: S3Server, tmp_path: Path, expected: str
) -> None:
    shelf = Shelf(tmp_path / "driver", f"s3://{BUCKET}/shelf")
    node = Node(tmp_path / "node", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    with s3.held():
        shelf.gate.touch()
        assert node.process.stdout is not None
        first = next(line for line in node.process.stdout if b"storage-slow" in line)
        assert f"s3://{BUCKET}/shelf" in json.loads(first)["event"]["body"]["message"]
    lines = node.lines()
    assert "trained" in lines[-1], lines
    shelf.bring(1)
    assert shelf.adapter() == expected
    steps = [json.loads(line)["step"] for line in (shelf.run / "events.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 41))


def test_a_store_that_stays_away_ends_the_task(s3: S3Server, tmp_path: Path, expected: str) -> None:
    shelf = Shelf(tmp_path / "driver", f"s3://{BUCKET}/shelf")
    node = Node(tmp_path / "node", shelf.order(patience=1.0), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    s3.stop()
    shelf.gate.touch()
    ended = failed(node.lines())
    assert (ended["exit"], ended["code"]) == (4, "storage") and f"s3://{BUCKET}/shelf" in ended["message"]
    s3.start()
    assert begun_at(finish(shelf, tmp_path / "other", succeeds=1)) >= 16
    assert shelf.adapter() == expected


def test_what_is_unchanged_is_sent_once_and_caches_are_shared(s3: S3Server, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "driver", f"s3://{BUCKET}/shelf")

    def objects() -> int:
        return sum("/shelf/objects/" in path for path in s3.writes)

    shelf.order()
    assert objects() == 3
    shelf.order()
    assert objects() == 3
    built = {"remark": "cache built"}
    assert built in finish(shelf, tmp_path / "node")
    shelf.store._store.remove("runs")
    (shelf.expert / "expert.lock").unlink()
    shutil.rmtree(shelf.run)
    shelf.run.mkdir()
    assert built not in finish(shelf, tmp_path / "other"), "a node of before has built it"
    (shelf.expert / "train.jsonl").write_text("other rows\n")
    shelf.store._store.remove("runs")
    shutil.rmtree(shelf.run)
    shelf.run.mkdir()
    lines = finish(shelf, tmp_path / "third")
    assert built in lines
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in json.dumps(lines)


def test_a_node_without_credentials_is_refused(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path / "driver", f"s3://{BUCKET}/shelf")
    order = shelf.order()
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    ended = failed(Node(tmp_path / "node", order, shelf.gate).lines())
    assert (ended["exit"], ended["code"]) == (3, "storage-credentials") and "AWS_" in ended["hint"], ended


def test_damaged_inputs_are_never_trained(shelf: Shelf, expected: str, tmp_path: Path) -> None:
    order = shelf.order()
    entry = next(entry for name, entry in inputs_of(order).items() if name.endswith("train.jsonl"))
    shelf.store._store.write(f"objects/{entry['sha256']}", b"x" * entry["bytes"])
    ended = failed(Node(tmp_path / "node", order, shelf.gate).lines())
    assert (ended["exit"], ended["code"]) == (1, "storage-damaged") and shelf.store._store.url in ended[
        "message"
    ]
    finish(shelf, tmp_path / "node", succeeds=1)
    assert shelf.adapter() == expected
    # What the node keeps for its next task.
    (tmp_path / "node" / "shelf" / "objects" / entry["sha256"]).write_bytes(b"x" * entry["bytes"])
    shelf.store._store.remove("runs")
    shutil.rmtree(shelf.run)
    shelf.run.mkdir()
    finish(shelf, tmp_path / "node")
    assert shelf.adapter() == expected


def inputs_of(order: dict[str, Any]) -> dict[str, Any]:
    files: dict[str, Any] = order["storage"]["inputs"]["files"]
    return files


def test_a_damaged_checkpoint_is_skipped(shelf: Shelf, expected: str, tmp_path: Path) -> None:
    lost = Node(tmp_path / "lost", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    lost.signal(signal.SIGKILL)
    lost.lines()
    newest = shelf.stored.newest()
    assert newest is not None
    entry = newest.files["checkpoint-16/weights"]
    name = f"runs/{EXPERT}/{newest.token:08d}/files/{entry['sha256']}"
    shelf.store._store.write(name, b"x" * entry["bytes"])
    lines = finish(shelf, tmp_path / "node", succeeds=1)
    assert begun_at(lines) == 12 and shelf.adapter() == expected
    warnings = [line["event"]["body"] for line in lines if "event" in line]
    assert "storage-damaged" in [body.get("code") for body in warnings]


def test_a_store_that_the_node_does_not_share_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    order = shelf.order()
    shelf.store.close()
    ended = failed(Node(tmp_path / "node", order, shelf.gate).lines())
    assert (ended["exit"], ended["code"]) == (3, "not-shared")


def test_an_absolute_path_in_the_manifest_is_refused(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "driver", f"file://{tmp_path}/store")
    manifest = json.loads((shelf.expert / "manifest.json").read_text())
    base = str(tmp_path / "driver" / "base")
    (shelf.expert / "manifest.json").write_text(json.dumps({**manifest, "base": base}))
    with pytest.raises(BadInput) as raised:
        shelf.order()
    assert raised.value.code == "storage-path" and base in raised.value.message


def test_a_living_task_refuses_another_one(shelf: Shelf, tmp_path: Path) -> None:
    node = Node(tmp_path / "node", shelf.order(), shelf.gate, pause_at=18)
    until(lambda: shelf.saved() >= 16)
    ended = failed(Node(tmp_path / "other", shelf.order(), shelf.gate).lines())
    assert (ended["exit"], ended["code"]) == (5, "locked") and shelf.store._store.url in ended["message"]
    shelf.gate.touch()
    assert "trained" in node.lines()[-1]
