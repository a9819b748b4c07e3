"""Runs trials through the fork server and compares what they leave with an undisturbed run."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plans import example_document

from expert_worker.checkpoint import record
from expert_worker.checkpoint.files import sha256

SIGKILL = -9
MEASURED = ("tokens_per_second", "peak_memory_bytes")


class Server:
    def __init__(self, modules: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("server.py")), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout and self._process.stdout.readline() == "ready\n"

    def run(self, **trial: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(trial) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


@dataclass
class Runs:
    """One recipe, run in many folders. The recipe is the same everywhere; only the output differs."""

    server: Server
    folder: Path
    changes: Mapping[str, Any]
    stage: str | None = None
    points: list[str] = field(default_factory=list)
    document: Callable[[Path, Mapping[str, Any]], dict[str, Any]] = example_document
    """The plan with changes by dotted keys."""

    def undisturbed(self) -> Path:
        points = self.folder / "points.json"
        answer = self.go("undisturbed", points=str(points))
        assert answer["code"] == 0, self.log("undisturbed")
        self.points = json.loads(points.read_text())
        return self.output("undisturbed")

    def output(self, name: str) -> Path:
        return self.folder / name / "out"

    def log(self, name: str) -> str:
        path = self.folder / name / "log"
        return path.read_text()[-3000:] if path.exists() else ""

    def go(self, name: str, *, resume: bool = False, **trial: Any) -> dict[str, Any]:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        changes = {
            **self.changes,
            "machine.paths.output": str(self.output(name)),
            "request.resume": {"from": "newest" if resume else "nothing"},
        }
        plan = place / ("resume.json" if resume else "plan.json")
        if not plan.exists():
            plan.write_text(json.dumps(self.document(self.folder, changes)))
        return self.server.run(
            plan=str(plan),
            output=str(self.output(name)),
            log=str(place / "log"),
            stage=self.stage,
            **trial,
        )

    def finish_and_compare(self, name: str, steps: int) -> None:
        """Resume to the end, hold the result against the undisturbed run, and make room."""
        answer = self.go(name, resume=True)
        assert answer["code"] == 0, f"{name}: {answer}\n{self.log(name)}"
        for part in ("final", f"checkpoint-{steps}"):
            other = differing_files(self.output(name) / part, self.output("undisturbed") / part)
            assert not other, (name, part, other)
        assert not half_made(self.output(name)), f"{name}: {half_made(self.output(name))}"
        shutil.rmtree(self.folder / name)


def differing_files(one: Path, other: Path) -> list[str]:
    """Those that only one of two folders has, or both with other content. Both must have files."""
    here, there = _digests(one), _digests(other)
    assert here, f"{one} has no files"
    assert there, f"{other} has no files"
    return sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))


def half_made(folder: Path) -> list[str]:
    """What a save or a removal that was cut off leaves, until the next attempt cleans up."""
    return sorted(
        str(path.relative_to(folder))
        for ending in ("partial", "trash")
        for path in folder.rglob(f"*.{ending}")
    )


def _digests(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): _digest(path) for path in folder.rglob("*") if path.is_file()}


def _digest(path: Path) -> str:
    """Of a checkpoint's record without what was measured: that differs between two runs of any kind."""
    if path.name != record.NAME:
        return sha256(path)
    document = json.loads(path.read_bytes())
    del document["seal"]
    for name in MEASURED:
        document["facts"].pop(name, None)
    document["facts"]["totals"].pop("seconds", None)
    return json.dumps(document)
