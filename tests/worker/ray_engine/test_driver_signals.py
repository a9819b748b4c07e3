"""The driver of a shelf outlives a signal to every process of the job. A stand-in for Ray sends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
RAY = """
import os, signal, sys
from types import SimpleNamespace

cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)

def remote(kind):
    return kind

def signal_all():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)

def init(**options):
    signal_all()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))

def nodes():
    signal_all()
    return []
"""
EXCEPTIONS = "class RayError(Exception): pass\nclass GetTimeoutError(RayError): pass\n"


def test_a_signal_to_every_process_of_the_job_does_not_end_the_driver(tmp_path: Path) -> None:
    ray = tmp_path / "ray"
    (ray / "util").mkdir(parents=True)
    (ray / "__init__.py").write_text(RAY)
    (ray / "exceptions.py").write_text(EXCEPTIONS)
    (ray / "util" / "__init__.py").touch()
    (ray / "util" / "scheduling_strategies.py").write_text("NodeAffinitySchedulingStrategy = None\n")
    shelf = {"storage": None, "address": None, "folder": None, "mark": None, "cli": "", "node_seconds": 1}
    ended = subprocess.run(
        [sys.executable, "-m", "expert_worker.ray_engine"],
        input=json.dumps({**shelf, "check": {}}).encode() + b"\n",
        env={
            **os.environ,
            "EXPERT_PARENT_PID": str(os.getpid()),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        },
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr.decode()
    assert json.loads(ended.stdout)["failed"]["code"] == "no-nodes"
