"""A driver that is not there, and runs that were never trained."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / "train"), str(HERE)]

CARD = {
    "FAKE_BUSY": 35, "FAKE_MEMORY_BUSY": 12, "FAKE_TOTAL_MIB": 24000, "FAKE_USED_MIB": 9000,
    "FAKE_CELSIUS": 61, "FAKE_MILLIWATTS": 180500, "FAKE_LIMIT_MILLIWATTS": 450000, "FAKE_MHZ": 1980,
    "FAKE_MAX_MHZ": 2100, "FAKE_MEMORY_MHZ": 1300,
}  # fmt: skip


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that the real binding loads in place of the driver's."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and Linux's library search path for the driver's stand-in")
    folder = tmp_path_factory.mktemp("driver")
    source, library = HERE / "fake_nvml.c", folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return folder


Bench = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """`python -m expert_worker.bench ...`; `driver` puts a GPU there, and `card` says in which state."""

    def run(*words: object, driver: Path | None = None, **card: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "worker" / "python"), "COLUMNS": "100"}
        if driver is not None:
            state = {name: str(value) for name, value in {**CARD, **card}.items() if value is not None}
            environment |= {"LD_LIBRARY_PATH": str(driver), **state}
        return subprocess.run(
            [sys.executable, "-m", "expert_worker.bench", *map(str, words)],
            capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=120,
        )  # fmt: skip

    return run
