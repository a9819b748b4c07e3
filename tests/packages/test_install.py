"""Both wheels in an empty environment, an empty home and an empty folder.

torch and the other packages come from this project's environment by a path file: six gigabytes are not
downloaded for a test. `test_contents.py` compares what the wheels require with the lock.
"""

import json
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from newcomer import PYTHON, ROOT, UV, Newcomer, call, link_packages, train

Packages = Mapping[str, Path]


pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


def test_the_worker_is_found_beside_the_program(environment: Path, tmp_path: Path) -> None:
    newcomer = Newcomer(environment / "bin" / "expert-cli", tmp_path)
    python = newcomer.check("python")["found"]
    assert str(environment / "bin" / "python") in python and "beside expert-cli" in python
    assert newcomer.check("worker")["status"] == "good"
    assert newcomer.check("native module")["status"] == "good"
    assert newcomer("init", "x").returncode == 0
    assert newcomer("validate", "x").returncode == 0
    assert newcomer("plan", "-m", "x").returncode == 0


def test_another_version_of_the_worker(packages: Packages, environment: Path, tmp_path: Path) -> None:
    """Another release of the worker is made from this one's wheel."""
    other = tmp_path / "other"
    assert call(UV, "venv", "--quiet", "--python", sys.executable, other).returncode == 0
    site = other / PYTHON / "site-packages"
    with zipfile.ZipFile(packages["expert_worker.whl"]) as archive:
        archive.extractall(site)
    init = site / "expert_worker" / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "99.'))
    link_packages(other)
    newcomer = Newcomer(environment / "bin" / "expert-cli", tmp_path)
    newcomer("init", "x")
    python = str(other / "bin" / "python")
    done = newcomer("train", "-m", "x", "--python", python)
    assert done.returncode == 3
    assert f"{python} has expert-worker 99." in done.stderr
    assert f"{python} -m pip install expert_worker-" in done.stderr
    checks = json.loads(newcomer("doctor", "--json", "--python", python).stdout)["checks"]
    (worker,) = [check for check in checks if check["name"] == "worker"]
    assert worker["status"] == "missing" and "99." in worker["found"]


def test_an_expert_is_made_and_trained(trained: Newcomer) -> None:
    listed = json.loads(trained("runs", "x", "--json").stdout)
    (run,) = listed["runs"]
    assert run["state"] == "finished", run


def test_uv_tool_install(packages: Packages, trained: Newcomer, tmp_path: Path) -> None:
    names = (ROOT / "requirements/worker.in").read_text().splitlines()
    outside = [f'{name.split(">")[0]} ; python_version < "0"' for name in names if not name.startswith("#")]
    (tmp_path / "overrides.txt").write_text("\n".join(outside))
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    done = call(
        *(UV, "tool", "install", "--offline", "--no-index", "--python", sys.executable),
        *("--overrides", tmp_path / "overrides.txt"),
        *("--with", packages["expert_worker.whl"], packages["expert_cli_lora.whl"]),
        env={**os.environ, **tools},
    )
    assert done.returncode == 0, done.stderr
    link_packages(tmp_path / "tools" / "expert-cli-lora")
    # The embedded base was converted for the other installation: it is the same user's.
    newcomer = Newcomer(tmp_path / "bin" / "expert-cli", tmp_path, home=trained.home)
    assert "beside expert-cli" in newcomer.check("python")["found"]
    train(newcomer)
