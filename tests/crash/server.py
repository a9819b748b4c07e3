"""A warm parent: imports everything once, then forks a child for each trial. One JSON line in, one out."""

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parents[2] / "worker" / "python"


def warm_up(modules: list[str]) -> None:
    worker_tests = Path(__file__).parents[1] / "worker"
    sys.path[:0] = [str(WORKER), str(Path(__file__).parent), str(worker_tests), str(worker_tests / "train")]
    import importlib

    from expert_worker.imports import quick_imports

    with quick_imports():
        import torch

        for module in modules:
            importlib.import_module(module)
    torch.set_num_threads(1)
    # A child must not copy a parent's page just because its garbage collector looked at it.
    gc.freeze()


def serve() -> None:
    for line in sys.stdin:
        trial = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _run_and_leave(trial)
        status = _wait(child, trial.get("kill_after"))
        code = os.waitstatus_to_exitcode(status)
        answer = {"code": code, "seconds": time.monotonic() - began}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _wait(child: int, kill_after: float | None) -> int:
    if kill_after is None:
        return os.waitpid(child, 0)[1]
    timer = threading.Timer(kill_after, os.kill, (child, signal.SIGKILL))
    timer.start()
    # The child stays a zombie until it is waited for, so a late timer cannot hit a stranger.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    timer.cancel()
    timer.join()
    return os.waitpid(child, 0)[1]


def _run_and_leave(trial: dict[str, Any]) -> None:
    code = 99
    try:
        code = _run(trial)
    finally:
        os._exit(code)


def _run(trial: dict[str, Any]) -> int:
    log = os.open(trial["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    os.dup2(log, 1)
    from faults import Faults

    from expert_worker.__main__ import carry_out
    from expert_worker.events.sinks import Pipe

    if trial.get("stage"):
        os.environ["EXPERT_TEST_STAGE"] = trial["stage"]
    named = {fault: trial.get(fault) for fault in ("kill", "stop", "refuse")}
    faults = Faults(Path(trial["output"]), **named)
    faults.install()
    try:
        return carry_out("train", Path(trial["plan"]), Pipe(os.open(os.devnull, os.O_WRONLY)))
    finally:
        faults.uninstall()
        if trial.get("points"):
            Path(trial["points"]).write_text(json.dumps(faults.seen))


if __name__ == "__main__":
    warm_up(sys.argv[1:])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    serve()
