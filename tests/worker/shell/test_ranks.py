"""Processes that belong together: started by one, stopped through it, and ended together whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plans import example_document

ROOT = Path(__file__).parents[3]
PLACES = [ROOT / "worker" / "python", Path(__file__).parent / "ranks"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asks and looks by POSIX signals")


class Run:
    def __init__(self, folder: Path, act: str = "", lock: int | None = None) -> None:
        self.output = folder / "out"
        changes = {"machine.distributed": {"strategy": "ddp", "processes": 2}}
        plan = folder / "plan.json"
        plan.write_text(json.dumps(example_document(folder, changes)))
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, PLACES)),
            "EXPERT_TEST_STAGE": "expert_test_ranks",
            "EXPERT_TEST_RANK": act,
        }
        command = [sys.executable, "-m", "expert_worker", "train", "--plan", str(plan)]
        environment |= {"EXPERT_RUN_LOCK": str(lock)} if lock is not None else {}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=() if lock is None else (lock,),
        )

    def members(self) -> list[int]:
        """Their process ids, once all have begun."""
        paths = [self.output / f"pid-{number}" for number in range(2)]
        while not all(path.exists() for path in paths):
            assert self.process.poll() is None
            time.sleep(0.01)
        return [int(path.read_text()) for path in paths]

    def finish(self) -> tuple[int, list[dict[str, Any]]]:
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line)["body"] for line in said.splitlines()]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    started: list[Run] = []

    def start(act: str = "", lock: int | None = None) -> Run:
        started.append(Run(tmp_path, act, lock))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def await_end(processes: list[int]) -> None:
    while any(map(alive, processes)):
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("asked", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupt", "terminate"]
)
def test_a_wish_to_stop_reaches_all_and_the_first_has_the_last_word(run: Any, asked: Any, code: int) -> None:
    started = run()
    members = started.members()
    started.process.send_signal(asked)
    ended, said = started.finish()
    assert ended == code
    assert [body["message"] for body in said if body["type"] == "failed"] == ["process 0 stopped"]
    await_end(members)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors as Linux shows them")
def test_each_of_them_holds_the_lock_of_the_run(run: Any, tmp_path: Path) -> None:
    import fcntl

    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    started = run(lock=folder)
    for process in [started.process.pid, *started.members()]:
        assert "FLOCK" in Path(f"/proc/{process}/fdinfo/{folder}").read_text()
    os.close(folder)


def test_mishaps_of_the_others_are_passed_on_with_their_number(run: Any) -> None:
    started = run()
    started.members()
    started.process.send_signal(signal.SIGTERM)
    _, said = started.finish()
    details = {body["detail"] for body in said if body["type"] == "recovered"}
    assert details == {"smaller", "Process 1: smaller"}
    assert len([body for body in said if body["type"] == "started"]) == 1


def test_a_second_wish_ends_all_at_once(run: Any) -> None:
    started = run("2:deaf")
    members = started.members()
    started.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    started.process.send_signal(signal.SIGTERM)
    ended, said = started.finish()
    assert ended == 143 and said[-1]["message"] == "Stopped at once, without a save"
    await_end(members)


def test_what_another_process_says_of_its_end_is_the_end_of_all(run: Any) -> None:
    started = run("1:missing")
    ended, said = started.finish()
    assert ended == 3
    assert said[-1] == {
        "type": "failed", "exit": 3, "code": "missing", "hint": "get one",
        "message": "Process 1 of 2: no such thing here",
    }  # fmt: skip
    recorded = (started.output / "events.jsonl").read_text().splitlines()
    assert json.loads(recorded[-1])["body"] == said[-1]


def test_a_process_that_leaves_without_a_word_is_named(run: Any) -> None:
    ended, said = run("1:leave").finish()
    assert ended == 1
    assert said[-1]["message"].startswith("Process 1 of 2 ended with status 7 and without a word")


def test_the_first_that_is_killed_ends_all(run: Any) -> None:
    started = run()
    members = started.members()
    os.kill(members[0], signal.SIGKILL)
    ended, said = started.finish()
    assert ended == 1 and said[-1]["code"] == "process-lost"
    assert "Process 0 of 2 was killed by signal 9" in said[-1]["message"]
    await_end(members)


def test_they_die_with_the_one_that_started_them(run: Any) -> None:
    started = run()
    members = started.members()
    started.process.kill()
    await_end(members)
