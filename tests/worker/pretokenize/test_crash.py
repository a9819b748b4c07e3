"""A builder that dies at any moment, and two that race, leave one valid cache in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest
from pretokenize.test_key import digest
from pretokenize.workshop import Workshop

from expert_worker.errors import Storage
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize import ensure_cache
from expert_worker.pretokenize.record import read_description

KILLS = 30
SAMPLE = 12
ROWS = [{"prompt": f"Question {i}", "completion": f"Answer {i * i}"} for i in range(30_000)]
CODE = (
    "import sys; from expert_worker.plan import parse_plan; from expert_worker.events import Events\n"
    "from expert_worker.pretokenize import ensure_cache\n"
    "plan = parse_plan(sys.stdin.readline()); print('ready', flush=True); sys.stdin.readline()\n"
    "print(ensure_cache(plan, Events.in_memory()[0]).existed)"
)


def builder(plan: Plan) -> "subprocess.Popen[str]":
    """A process that reads its plan and waits for a line to begin."""
    source = str(Path(__file__).parents[3] / "worker" / "python")
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        env={**os.environ, "PYTHONPATH": source},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(plan.model_dump_json(by_alias=True) + "\n")
    process.stdin.flush()
    return process


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


def build_and_leave(plan: Plan) -> NoReturn:
    """In a forked child, which has imported everything already: its life is the build."""
    try:
        ensure_cache(plan, Events.in_memory()[0])
    finally:
        os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_builder_killed_at_any_moment(workshop: Workshop, every_trial: bool) -> None:
    path = workshop.jsonl(ROWS)
    changes = {"recipe.data.validation_split": 0.05}
    workshop.build(path)  # Compiles and checks the tokenizer, so that the clock below sees a build alone.
    started = time.monotonic()
    undisturbed = workshop.build(path, {**changes, "machine.paths.cache": str(workshop.folder / "calm")})
    seconds = time.monotonic() - started
    expected = digest(undisturbed.folder)
    plan = workshop.plan(path, changes)
    draw = random.Random(9)
    died_before_the_end = 0
    for _ in range(KILLS if every_trial else SAMPLE):
        child = os.fork()
        if child == 0:
            build_and_leave(plan)
        time.sleep(draw.uniform(0, seconds * 1.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        target = workshop.folder / "cache" / undisturbed.key
        if target.exists():
            # Whatever stands under the final name is whole.
            assert digest(target) == expected
            workshop.build(path, changes)
            for file in sorted(target.rglob("*"), reverse=True):
                file.unlink() if file.is_file() else file.rmdir()
            target.rmdir()
        else:
            died_before_the_end += 1
    assert died_before_the_end > 0
    cache = workshop.build(path, changes)
    assert digest(cache.folder) == expected
    left = {entry.name for entry in (workshop.folder / "cache").iterdir() if not entry.name.endswith(".lock")}
    assert left == {cache.key, workshop.build(path).key}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of file sizes")
def test_a_limit_of_file_sizes_is_a_storage_error(workshop: Workshop) -> None:
    import resource

    path = workshop.jsonl(ROWS)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(Storage, match="File too large") as caught:
            workshop.build(path, {"machine.paths.cache": str(workshop.folder / "limited")})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.hint is not None and "ulimit -f" in caught.value.hint
    assert not workshop.build(path, {"machine.paths.cache": str(workshop.folder / "limited")}).existed


def test_two_builders_of_one_key(workshop: Workshop) -> None:
    plan = workshop.plan(workshop.jsonl(ROWS))
    processes = [builder(plan) for _ in range(2)]
    for process in processes:
        begin(process)
    answers = sorted(process.communicate()[0].split()[-1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert answers in (["False", "True"], ["True", "True"])
    folders = [entry for entry in (workshop.folder / "cache").iterdir() if entry.is_dir()]
    assert len(folders) == 1 and read_description(folders[0]) is not None
