"""The worker as a process: what it says on its way out, and what it refuses to load."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from plans import example_document

from expert_worker.crash import as_expert_error, ending_of, write_traceback
from expert_worker.errors import Storage
from expert_worker.stages import find_stage

ROOT = Path(__file__).parents[3]


def run_worker(folder, acts, *, changes=None, stage="train", substitute="expert_test_stage"):
    plan = folder / "plan.json"
    plan.write_text(json.dumps(example_document(folder, changes)))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "worker" / "python"), str(ROOT / "tests" / "cli" / "stage")]
        ),
        "EXPERT_TEST_STAGE": substitute,
        "EXPERT_TEST_ACTS": acts,
        "EXPERT_TEST_PID_FILE": str(folder / "pid"),
    }
    command = [sys.executable, "-m", "expert_worker", stage, "--plan", str(plan)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_stage_begins_and_finishes_and_leaves_a_record(tmp_path):
    done, events = run_worker(tmp_path, "stray-print,steps=2")
    assert done.returncode == 0
    assert [event["body"]["type"] for event in events] == ["started", "progress", "progress", "finished"]
    assert "a library talks" in done.stderr
    assert (tmp_path / "out" / "events.jsonl").read_text() == done.stdout


def test_an_unforeseen_error_is_one_line_and_a_log(tmp_path):
    done, events = run_worker(tmp_path, "unforeseen")
    assert done.returncode == 1
    failed = events[-1]["body"]
    assert failed["type"] == "failed"
    log = Path(failed["message"].partition("(details: ")[2].removesuffix(")"))
    assert "Traceback" in log.read_text()
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_log_is_not_written_through_a_link(tmp_path):
    """A downloaded run's folder may hold links of this name to the user's own files."""
    own = tmp_path / "own"
    own.write_text("mine\n")
    run, logs = tmp_path / "run", tmp_path / "logs"
    run.mkdir()
    (run / f"worker-{os.getpid()}.log").symlink_to(own)
    assert write_traceback(ValueError("odd"), [run, logs]) == logs / f"worker-{os.getpid()}.log"
    assert own.read_text() == "mine\n"


def test_an_invalid_plan_is_reported_with_its_place(tmp_path):
    done, events = run_worker(tmp_path, "steps=1", changes={"recipe.adapter.rank": "eight"})
    assert done.returncode == 2
    assert "/recipe/adapter/rank" in events[-1]["body"]["message"]


def test_the_plan_and_the_command_line_must_ask_for_one_stage(tmp_path):
    done, events = run_worker(tmp_path, "steps=1", stage="evaluate")
    assert done.returncode == 2
    assert events[-1]["body"]["code"] == "bad-plan"


@pytest.mark.parametrize("name", ["os", "expert_test_x.y", "expert_worker.train", "expert_test_", "../x"])
def test_only_a_test_module_can_stand_in_for_a_stage(monkeypatch, name):
    monkeypatch.setenv("EXPERT_TEST_STAGE", name)
    with pytest.raises(ImportError, match="nowhere"):
        find_stage("nowhere")


def test_a_full_disk_is_a_storage_failure():
    error = as_expert_error(OSError(28, "No space left on device", "/x/model.safetensors"))
    assert isinstance(error, Storage)
    assert error.exit_code == 4
    assert "/x/model.safetensors" in error.message
    # Of a library in Rust, which has no kind for it.
    error = as_expert_error(Exception("No space left on device (os error 28)"))
    assert isinstance(error, Storage) and "Free some space" in (error.hint or "")


def test_a_full_gpu_is_named_without_the_advice_on_its_allocator():
    said = (
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 1 has a total capacity of 23.52 GiB of which "
        "1.08 GiB is free. Reduce it via PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve."
    )
    error = as_expert_error(type("OutOfMemoryError", (RuntimeError,), {})(said))
    words = "Out of memory on GPU 1: 2.00 MiB more did not fit; 1.08 GiB of 23.52 GiB are free"
    assert error.code == "out-of-memory" and error.message.startswith(words)
    assert "PYTORCH" not in error.message and "`nvidia-smi`" in error.hint
    library = ImportError("_C.so: failed to map segment from shared object", name="_C")
    assert "ulimit -v" in (as_expert_error(library).hint or "")
    elsewhere = as_expert_error(MemoryError("no room"))
    assert elsewhere.message.startswith("Out of memory: no room") and "nvidia-smi" not in elsewhere.hint
    library = as_expert_error(RuntimeError("CUDA error: out of memory"))
    assert library.message.startswith("Out of memory: CUDA error (details: ")
    silent = as_expert_error(MemoryError("out of memory"))
    assert silent.message.startswith("Out of memory (details: ")
    silent = as_expert_error(MemoryError())
    assert silent.code == "out-of-memory" and silent.message.startswith("Out of memory (details: ")


@pytest.mark.parametrize(
    ("stage", "named", "not_read"),
    [
        ("train", "batch_size", "max_new_tokens"),
        ("bench", "batch_size", "max_new_tokens"),
        ("evaluate", "max_new_tokens", "batch_size"),
        ("generate", "max_new_tokens", "batch_size"),
        ("export", "other programs", "batch_size"),
        ("pretokenize", "max_seq_length", "batch_size"),
    ],
)
def test_where_memory_ran_out_the_hint_names_settings_of_the_stage(stage, named, not_read):
    hint = ending_of(MemoryError(), stage, None).hint
    assert named in hint and not_read not in hint


def test_a_thread_that_could_not_be_started_has_its_own_message():
    error = as_expert_error(RuntimeError("can't start new thread"))
    assert error.code == "no-thread" and "`ulimit -u`" in (error.hint or "")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are the shell's")
def test_a_limit_of_memory_is_named_with_what_did_not_fit():
    allocate = (
        "import resource, torch\n"
        "from expert_worker.crash import as_expert_error\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, resource.RLIM_INFINITY))\n"
        "try: torch.empty(250_000_000, dtype=torch.uint8)\n"
        "except RuntimeError as error: found = as_expert_error(error)\n"
        "print(found.code, found.message, found.hint, sep='|')\n"
    )
    said = subprocess.run([sys.executable, "-c", allocate], check=True, capture_output=True, text=True).stdout
    code, message, hint = said.strip().split("|")
    assert code == "out-of-memory"
    assert message.startswith("Out of memory: 250.0 MB more did not fit (details: ")
    assert re.match(r"Raise the limit of \d+\.\d GB \(`ulimit -v` shows it\), or lower batch_size", hint)


def test_a_missing_package_is_named_with_what_to_do():
    error = as_expert_error(ModuleNotFoundError("No module named 'liger'", name="liger"))
    assert error.exit_code == 3
    assert "liger" in error.message


WATCHED = """
import os, sys, threading
from expert_worker.process import bind_to_parent
sys.platform = "darwin"
os.environ["EXPERT_PARENT_PID"] = "1"
bind_to_parent(reads_stdin={reads})
print("watching", flush=True)
threading.Event().wait(30)
"""


@pytest.mark.parametrize("reads", [False, True])
def test_the_end_of_standard_input_ends_a_worker_that_does_not_read_it(reads):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "worker" / "python")}
    command = [sys.executable, "-c", WATCHED.format(reads=reads)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as worker:
        assert worker.stdout.readline() == "watching\n"
        worker.stdin.close()
        if reads:
            with pytest.raises(subprocess.TimeoutExpired):
                worker.wait(0.3)
            worker.kill()
        else:
            assert worker.wait(30) == 1


EXPORT = {"stage": "export", "adapter": "a", "target": "b", "merge": True}
PRETOKENIZE = {"stage": "pretokenize", "force": False, "preview": None}


@pytest.mark.parametrize(
    ("request_", "reported"), [pytest.param(EXPORT, True, marks=pytest.mark.full), (PRETOKENIZE, False)]
)
def test_the_seconds_that_torch_needs_are_reported(tmp_path, request_, reported):
    # Both fail right after, for want of the files that the plan names.
    changes = {"request": request_}
    _, events = run_worker(tmp_path, "", stage=request_["stage"], substitute="", changes=changes)
    stages = [event["body"]["name"] for event in events if event["body"]["type"] == "stage"]
    assert ("load libraries" in stages) is reported
