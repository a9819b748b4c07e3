"""Tests one fault in a process forked from one that has loaded torch and everything else that is not ours.

Why not mutmut or cosmic-ray: cosmic-ray starts Python for each fault and rewrites the source file, mutmut
works in a copy of the sources, without the native module. Loading torch and transformers takes longer than
the tests do. Here a fault costs one fork, and no file is touched.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
NOT_OURS = [
    "torch",
    "transformers",
    "peft",
    "safetensors.torch",
    "pyarrow",
    "pydantic",
    "hypothesis",
    "pytest",
]
# A lost wake-up waits for ever and takes no CPU time; so does a machine that has no time for us.
MOST_WAITED = 300.0
# Only the limit of CPU time shows that a fault was noticed.
PASSED, FAILED, OUT_OF_TIME, UNDECIDED = "passed", "failed", "out of time", "undecided"


def warm_up() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    os.chdir(ROOT)
    for name in NOT_OURS:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    gc.freeze()


def passed(
    tests: list[str], module: str, changed: ast.Module | None, cpu_seconds: float
) -> tuple[str, float]:
    """How the tests end with `module` changed, and the CPU seconds that they took."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _run(tests, module, changed, cpu_seconds)
        finally:
            os._exit(code)
    timer = threading.Timer(MOST_WAITED, os.kill, (child, signal.SIGKILL))
    timer.start()
    # It stays a zombie until it is waited for, so a late timer cannot hit a stranger.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    timer.cancel()
    timer.join()
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    known = {0: PASSED, -signal.SIGXCPU: OUT_OF_TIME, -signal.SIGKILL: UNDECIDED}
    ending = known.get(code, FAILED)
    return ending, usage.ru_utime + usage.ru_stime


def _run(tests: list[str], module: str, changed: ast.Module | None, cpu_seconds: float) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 5))
    if not os.environ.get("EXPERT_MUTATION_SHOW"):
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
    if changed is not None:
        sys.meta_path.insert(0, _Finder(module, changed))
    import pytest

    return int(pytest.main(["-x", "-p", "no:xdist", "-p", "no:randomly", "--timeout=0", *tests]))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, changed: ast.Module) -> None:
        self._module, self._changed = module, changed

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname != self._module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._changed)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, changed: ast.Module) -> None:
        super().__init__(name, path)
        self._changed = changed

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._changed, self.path, "exec")
