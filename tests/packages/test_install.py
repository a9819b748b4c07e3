"""Both wheels in an empty environment, an empty home and an empty folder.

torch and the other packages come from this project's environment by a path file: six gigabytes are not
downloaded for a test. `test_contents.py` compares what the wheels require with the lock.
"""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv" / "bin" / "uv"
PYTHON = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"

Packages = Mapping[str, Path]


def call(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,  # type: ignore[call-overload]
    )


pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


def link_packages(environment: Path) -> None:
    folders = [path for path in sys.path if path.endswith("site-packages")]
    assert folders
    (environment / PYTHON / "site-packages" / "shared.pth").write_text("\n".join(folders) + "\n")


@pytest.fixture(scope="module")
def environment(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("installed") / "env"
    wheels = (packages["expert_worker.whl"], packages["expert_cli.whl"])
    install = (UV, "pip", "install", "--quiet", "--offline", "--no-index", "--no-deps")
    for words in (
        (UV, "venv", "--quiet", "--python", sys.executable, root),
        (*install, "--python", root / "bin/python", *wheels),
    ):
        done = call(*words)
        assert done.returncode == 0, done.stderr
    link_packages(root)
    return root


class Newcomer:
    """Somebody with an empty home and an empty folder."""

    def __init__(self, expert_cli: Path, root: Path) -> None:
        self.expert_cli, self.home, self.folder = expert_cli, root / "home", root / "folder"
        self.home.mkdir()
        self.folder.mkdir()

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(["/usr/bin", "/bin"])
        environment = {"HOME": str(self.home), "PATH": path, "OMP_NUM_THREADS": "1"}
        return call(self.expert_cli, *words, cwd=self.folder, env=environment)

    def check(self, name: str) -> dict[str, str]:
        checks = json.loads(self("doctor", "--json").stdout)["checks"]
        (found,) = [check for check in checks if check["name"] == name]
        return found


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
    assert f"{python} -m pip install expert-cli==" in done.stderr
    checks = json.loads(newcomer("doctor", "--json", "--python", python).stdout)["checks"]
    (worker,) = [check for check in checks if check["name"] == "worker"]
    assert worker["status"] == "missing" and "99." in worker["found"]


def test_an_expert_is_made_and_trained(environment: Path, tmp_path: Path) -> None:
    newcomer = Newcomer(environment / "bin" / "expert-cli", tmp_path)
    train(newcomer)


def test_uv_tool_install(packages: Packages, tmp_path: Path) -> None:
    names = (ROOT / "requirements/worker.in").read_text().splitlines()
    outside = [f'{name.split(">")[0]} ; python_version < "0"' for name in names if not name.startswith("#")]
    (tmp_path / "overrides.txt").write_text("\n".join(outside))
    tools = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    folder = packages["expert_cli.whl"].parent
    done = call(
        *(UV, "tool", "install", "--offline", "--no-index", "--python", sys.executable),
        *("--find-links", folder, "--overrides", tmp_path / "overrides.txt", "expert-cli"),
        env={**os.environ, **tools},
    )
    assert done.returncode == 0, done.stderr
    link_packages(tmp_path / "tools" / "expert-cli")
    newcomer = Newcomer(tmp_path / "bin" / "expert-cli", tmp_path)
    assert "beside expert-cli" in newcomer.check("python")["found"]
    train(newcomer)


def train(newcomer: Newcomer) -> None:
    assert newcomer("init", "x").returncode == 0
    done = newcomer("train", "-m", "x", "--max-steps", "3")
    assert done.returncode == 0, done.stderr
    (record,) = newcomer.folder.glob("x/weights/*/run.json")
    result = json.loads(record.read_text())["result"]
    assert result["steps"] == 3 and result["train_loss"] > 0
    assert next(record.parent.glob("final/adapter_model.safetensors")).stat().st_size > 0
