"""Who holds GPU memory, and what is ended."""

import fcntl
import json
import subprocess
import sys
import time

import psutil
import pytest
from written_runs import write_run

from expert_worker.bench import holders
from expert_worker.bench.attach import parse_command, worker_of
from expert_worker.bench.holders import free, gpu_processes
from expert_worker.bench.nvml import Holder

SLEEP = "import time; time.sleep(120)"
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('deaf', flush=True); time.sleep(120)"
)


@pytest.fixture
def worker(tmp_path):
    """A process that looks like the worker of a run in `tmp_path/run`."""
    folder = write_run(tmp_path / "run", [])
    (folder / "lock").write_text("1\n")
    started = []

    def start(code=SLEEP):
        words = ["-m", "expert_worker", "train", "--plan", str(folder / "plan.json")]
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
        started.append(process)
        deadline = time.monotonic() + 30
        while worker_of(folder) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return process

    yield folder, start
    for process in started:
        process.kill()
        process.wait()


def held_by(pid, entries=()):
    return next(it for it in gpu_processes(entries) if it.pid == pid)


def test_a_run_that_is_held_lives(worker):
    folder, start = worker
    process = start()
    with (folder / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = held_by(process.pid, [Holder(0, process.pid, 500 << 20)])
    assert (held.standing, held.freeable, held.bytes_by_gpu) == ("live run", False, {0: 500 << 20})


def test_a_worker_whose_starter_lives_is_let_alone(worker):
    _, start = worker
    assert held_by(start().pid).standing == "at work"


def test_the_worker_of_a_dead_run_is_ended(worker, monkeypatch):
    _, start = worker
    process = start()
    monkeypatch.setattr(holders, "orphaned", lambda pid: True)
    held = [held_by(process.pid)]
    assert held[0].standing == "left over"
    freed = free(held)
    assert freed[0].ended and freed[0].said == "ended when asked"
    assert not psutil.pid_exists(process.pid) or psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE


def test_a_fused_worker_lives_while_one_of_its_runs_does(tmp_path, monkeypatch):
    runs = [write_run(tmp_path / name, []) for name in ("dead", "live")]
    plans = [word for run in runs for word in ("--plan", str(run / "plan.json"))]
    line = [sys.executable, "-c", SLEEP, "-m", "expert_worker", "train", *plans]
    for run in runs:
        (run / "lock").write_text("1\n")
    monkeypatch.setattr(holders, "orphaned", lambda pid: True)
    monkeypatch.setattr(holders, "workers", lambda: parse_command(1, line, 1.0))
    with (runs[1] / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held = held_by(1)
        assert (held.standing, held.run) == ("live run", str(runs[1]))
    assert held_by(1).standing == "left over"


def test_without_a_lock_file_nothing_is_ended(worker, monkeypatch):
    folder, start = worker
    process = start()
    (folder / "lock").unlink()
    monkeypatch.setattr(holders, "orphaned", lambda pid: True)
    held = held_by(process.pid)
    assert held.standing == "at work" and free([held]) == [] and process.poll() is None


def test_one_that_does_not_listen_is_killed(worker, monkeypatch):
    _, start = worker
    process = start(DEAF)
    assert process.stdout.readline() == b"deaf\n"
    monkeypatch.setattr(holders, "orphaned", lambda pid: True)
    assert free([held_by(process.pid)], grace=0.3)[0].said == "did not answer and was killed"


def test_orphans_are_recognized_by_their_parent(worker):
    _, start = worker
    assert not holders.orphaned(start().pid)
    assert holders.orphaned(1) or psutil.Process(1).ppid() != 0


def test_other_programs_are_shown_and_never_touched(bench, driver):
    other = subprocess.Popen([sys.executable, "-c", SLEEP])
    try:
        done = bench("holders", "--dry-run", "--json", driver=driver, FAKE_PID=other.pid, FAKE_PID_MIB=700)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        mine = next(it for it in result["processes"] if it["pid"] == other.pid)
        assert mine["standing"] == "other program" and mine["bytes_by_gpu"] == {"0": 700 << 20}
        assert result["freed"] == [] and other.poll() is None
        assert result["gpus"] == [{"name": "Fake GPU", "used": 9000 << 20, "total": 24000 << 20}]
    finally:
        other.kill()
        other.wait()


def test_without_a_driver_workers_are_still_listed(bench):
    done = bench("holders", "--dry-run")
    assert done.returncode == 0 and "no NVIDIA driver" in done.stderr and "Traceback" not in done.stderr
