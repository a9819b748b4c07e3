"""Beside a run: which events count, when it ends, what is written."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from written_runs import event, step, typed, write_run

from expert_worker.bench.attach import newest_run, parse_command, worker_of, workers
from expert_worker.bench.breakdown import breakdown
from expert_worker.bench.sample import (
    MachineUse,
    ProcessTree,
    ProcessUse,
    Sample,
    Summary,
    statistics,
    summarize,
)
from expert_worker.bench.verdict import Observation, findings
from expert_worker.bench.watch import WatchResult, find_run, report, watch
from expert_worker.events.reader import EventFile, last_attempt


def test_statistics_of_known_numbers():
    assert summarize([]) is None
    figures = summarize([5.0, 1.0, 2.0, 4.0, 3.0])
    assert figures == Summary(mean=3.0, min=1.0, max=5.0, p50=3.0, p95=pytest.approx(4.8))


def test_a_file_that_grows_is_read_by_whole_lines(tmp_path):
    path = tmp_path / "events.jsonl"
    file = EventFile(path)
    assert list(file.read()) == []
    whole = json.dumps(event(1.0, "stage", name="train"))
    path.write_text(whole + "\nnot json\n" + whole[:9])
    assert len(list(file.read())) == 1
    with path.open("a") as more:
        more.write(whole[9:] + "\n")
    assert [it.body.name for it in file.read()] == ["train"]
    assert list(file.read()) == [] and file.left_out == 1


def test_only_the_newest_attempt_counts():
    events = typed([step(5.0, 9), step(9.0, 3, attempt=2), step(7.0, 2, attempt=2)])
    assert [it.body.step for it in last_attempt(events)] == [2, 3]


def test_time_is_attributed_part_by_part():
    lines = [
        step(1.0, 1, seconds=2.0, data_wait=0.4, transfer=0.1, host_launch=0.5, device_compute=1.2),
        event(2.0, "evaluated", step=1, metrics={}, seconds=1.0),
        event(3.0, "checkpoint", step=1, path="c", bytes=1, seconds=1.0),
    ]
    found = breakdown(typed(lines))
    wanted = {
        "data wait": 0.4, "transfer": 0.1, "forward and backward": 1.2, "update": 0.3, "evaluate": 1.0,
        "checkpoint": 1.0,
    }  # fmt: skip
    assert found.seconds == pytest.approx(wanted)
    assert found.shares["evaluate"] == pytest.approx(0.25)
    assert found.launch_to_compute == pytest.approx(0.5 / 1.2)
    assert found.tokens_per_second == 500


def test_records_of_before_the_split_are_still_read():
    old = step(1.0, 1, seconds=2.0, data_wait=0.5)
    del old["body"]["host_launch"], old["body"]["device_compute"], old["body"]["transfer"]
    found = breakdown(typed([old]))
    assert found.seconds["forward and backward"] == 1.5 and found.launch_to_compute is None


def test_only_what_happened_while_it_was_watched_counts(tmp_path):
    now = time.time()
    folder = write_run(tmp_path / "run", [step(now - 100, 1, seconds=50.0)])
    stop = threading.Event()

    def show(seen):
        if len(seen.samples) == 1:
            append(folder, step(time.time(), 2, tokens=77))
        elif seen.samples[-1].step:
            stop.set()

    result = watch(find_run(folder, alone=False), 0.05, 60.0, stop, show)
    assert [one.number for one in result.breakdown.steps] == [2]
    assert result.breakdown.steps[0].tokens == 77
    assert result.samples[-1].step == 2 and result.samples[0].step is None


def test_the_table_leaves_out_whole_columns_in_a_narrow_terminal():
    machine = MachineUse(12.5, 3 * 2**30, 2**34, 2**20)
    samples = tuple(Sample(float(at), (), None, machine, None, None) for at in range(3))
    result = WatchResult(0.0, 3.0, 1.0, None, "none", None, samples)
    table = report(result).split("\n\n")[1].splitlines()
    assert table[0].split() == ["mean", "min", "max", "p50", "p95"]
    width = max(map(len, table))
    assert report(result, width) == report(result)
    narrow = report(result, width - 1).split("\n\n")[1].splitlines()
    assert narrow[0].split() == ["mean", "min", "max", "p95"]
    assert narrow[-1] == "not shown for lack of width: p50 (--json has all)"
    assert max(map(len, narrow[:-1])) < width


def test_the_watch_ends_with_the_run(tmp_path):
    folder = write_run(tmp_path / "run", [event(time.time() - 5, "finished", result={})])
    result = watch(find_run(folder, alone=False), 0.05, 60.0, threading.Event())
    assert len(result.samples) == 1 and result.document(raw=False)["run"]["ended"]
    assert result.findings[-1].code in {"ended", "crowded"}


def test_a_stop_ends_it_with_what_there_is():
    stop = threading.Event()
    result = watch(None, 0.05, 60.0, stop, lambda seen: stop.set() if len(seen.samples) == 2 else None)
    assert len(result.samples) == 2 and result.document(raw=True)["samples"][1]["machine"]["memory_total"] > 0


def append(folder: Path, line) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_workers_are_known_by_their_command_line(tmp_path):
    line = ["python", "-m", "expert_worker", "train", "--plan", "/runs/a/plan.json"]
    (found,) = parse_command(7, line, 1.0)
    assert (found.pid, found.stage, found.folder, found.trains) == (7, "train", Path("/runs/a"), True)
    fused = parse_command(7, [*line, "--plan", "/runs/b/plan.json"], 1.0)
    assert [(it.pid, it.folder) for it in fused] == [(7, Path("/runs/a")), (7, Path("/runs/b"))]
    for other in ([*line[:3], "doctor"], line[:3], [*line[:3], "warm"], ["python", "-m", "pytest"]):
        assert parse_command(7, other, 1.0) == []


def test_a_running_train_is_found_by_itself_and_its_process_is_measured(tmp_path):
    folder = write_run(tmp_path / "run", [])
    busy = "import time\nwhile True: sum(range(9999)); time.sleep(0.001)"
    words = ["-m", "expert_worker", "train", "--plan", str(folder / "plan.json")]
    process = subprocess.Popen([sys.executable, "-c", busy, *words])
    try:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = worker_of(folder)
            assert found is not None and found.pid == process.pid
            assert newest_run().started >= found.started and found in workers()
            watched = ProcessTree(found.pid)
            assert watched.read().processes == 1
            deadline = time.monotonic() + 30
            while (tree := watched.read()).cpu_percent == 0 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert tree.cpu_percent > 0 and tree.resident > 1 << 20
    finally:
        process.kill()
        process.wait()
    assert watched.read() is None and worker_of(folder) is None


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_a_worker_forked_from_a_warm_parent_is_found_by_its_run(tmp_path):
    folder = write_run(tmp_path / "run", [])
    # As the lock that the CLI shares with it, and its data loader has too.
    busy = (
        "import os, sys, time; os.open(sys.argv[1], os.O_RDONLY)\n"
        "if os.fork(): print('open', flush=True)\n"
        "time.sleep(120)"
    )
    words = [str(folder), "-m", "expert_worker", "warm"]
    process = subprocess.Popen(
        [sys.executable, "-c", busy, *words], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout.readline() == b"open\n"
        append(folder, event(1.0, "started", pid=1))
        assert worker_of(folder) is None, "its newest attempt began in another process"
        append(folder, event(2.0, "started", pid=process.pid, attempt=2))
        found = worker_of(folder)
        assert found is not None and (found.pid, found.trains) == (process.pid, True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert found in workers() and newest_run().started >= found.started
            assert find_run(folder, alone=False).process.read().processes == 2
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def seen(lines, **more):
    machine = MachineUse(99.0, 8 << 30, 16 << 30, 0)
    taken = [Sample(1.0, (), ProcessUse(50.0, 1 << 30, 1, 4), machine, 1, 1.0)]
    usual = {
        "samples": taken, "figures": statistics(taken), "breakdown": breakdown(typed(lines)), "gpu": None,
        "reserved": 0, "cores": 2, "attached": True, "stage": "train",
    }  # fmt: skip
    return Observation(**{**usual, **more})


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([step(1.0, 1, data_wait=0.3, host_launch=0.6, device_compute=0.6)], "data-wait"),
        ([step(1.0, 1), event(2.0, "evaluated", step=1, metrics={}, seconds=1.0)], "evaluate-share"),
        ([step(1.0, 1), event(2.0, "checkpoint", step=1, path="", bytes=1, seconds=1.0)], "checkpoint-share"),
        ([step(1.0, 1, transfer=0.2, host_launch=0.7, device_compute=0.7)], "transfer"),
    ],
)
def test_each_cause_has_its_verdict(lines, code):
    found = findings(seen(lines))
    assert found[0].code == code and found[0].advice and "crowded" in [it.code for it in found]


def test_a_quiet_machine_is_computing_and_says_where_it_stands_without_steps():
    calm = [Sample(1.0, (), ProcessUse(190.0, 1 << 30, 1, 4), MachineUse(98.0, 8 << 30, 16 << 30, 0), 1, 1.0)]
    figures = {"samples": calm, "figures": statistics(calm)}
    assert [it.code for it in findings(seen([step(1.0, 1)], **figures))] == ["compute-bound"]
    none = findings(seen([], **figures))
    assert none[0].code == "no-steps" and "train" in none[0].message
    assert findings(seen([], **figures, ended=True))[0].code == "ended"
    idle = [
        Sample(1.0, (), ProcessUse(0.1, 1 << 30, 1, 4), MachineUse(10.0, 8 << 30, 16 << 30, 0), None, None)
    ]
    asleep = {"samples": idle, "figures": statistics(idle)}
    assert findings(seen([], **asleep))[0].code == "standing-still"
    assert findings(seen([step(1.0, 1)], **asleep))[0].code == "compute-bound"
    short = [Sample(1.0, (), None, MachineUse(10.0, 1 << 28, 16 << 30, 0), 1, 1.0)]
    found = findings(seen([step(1.0, 1)], samples=short, figures=statistics(short)))
    assert [it.code for it in found] == ["memory-short"]


def test_files_hold_raw_samples_and_a_page_that_loads_nothing(bench, tmp_path):
    folder = write_run(tmp_path / "run", [step(time.time() + 60, 1)])
    files = ("--output", "f.json", "--plot", "f.html")
    done = bench("watch", "--interval", "0.1", "--duration", "0.3", "--run", folder, *files)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "f.json").read_text())
    assert 1 <= len(document["samples"]) <= 3 and document["samples"][0]["machine"]["cpu_percent"] >= 0
    assert document["run"]["steps"] == 1
    page = (tmp_path / "f.html").read_text()
    assert "<svg" in page and "http" not in page.replace("http-equiv", "") and "<script" not in page
    assert "<b>step" not in page, "a point of its charts is a time"
    assert "forward and backward" in done.stdout
    assert "on a CPU launching and computing are the same time" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["watch", "--duration", "0"], 2, "not a positive number"),
        (["watch", "--interval", "soon"], 2, "not a positive number"),
        (["watch", "--run", "nowhere"], 2, "is not a folder"),
        (["watch", "--run", "."], 2, "holds no events.jsonl"),
        (["watch", "--output", "nowhere/f.json"], 4, "cannot be written"),
        (["watch", "--alone", "--run", "."], 2, "not allowed with"),
        (["wach"], 2, "invalid choice"),
        ([], 2, "required"),
    ],
)
def test_mistakes_are_answered_in_words(bench, words, code, said):
    done = bench(*words)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr


def test_a_refusal_is_a_document_too(bench):
    done = bench("watch", "--run", "nowhere", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "no-run" and done.returncode == 2
