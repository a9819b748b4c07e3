"""Somebody with an empty home and an empty folder, and how the packages are installed for him."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv" / "bin" / "uv"
PYTHON = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"


def call(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        **options,  # type: ignore[call-overload]
    )


def link_packages(environment: Path) -> None:
    folders = [path for path in sys.path if path.endswith("site-packages")]
    assert folders
    (environment / PYTHON / "site-packages" / "shared.pth").write_text("\n".join(folders) + "\n")


class Newcomer:
    """Somebody with an empty home and an empty folder."""

    def __init__(self, expert_cli: Path, root: Path, home: Path | None = None) -> None:
        self.expert_cli, self.home, self.folder = expert_cli, home or root / "home", root / "folder"
        self.home.mkdir(exist_ok=True)
        self.folder.mkdir()

    def __call__(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return call(self.expert_cli, *words, cwd=cwd or self.folder, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(["/usr/bin", "/bin"])
        return {"HOME": str(self.home), "PATH": path, "OMP_NUM_THREADS": "1"}

    def check(self, name: str) -> dict[str, str]:
        checks = json.loads(self("doctor", "--json").stdout)["checks"]
        (found,) = [check for check in checks if check["name"] == name]
        return found


def train(newcomer: Newcomer) -> None:
    assert newcomer("init", "x").returncode == 0
    done = newcomer("train", "-m", "x", "--max-steps", "3")
    assert done.returncode == 0, done.stderr
    (record,) = newcomer.folder.glob("x/weights/*/run.json")
    result = json.loads(record.read_text())["result"]
    assert result["steps"] == 3 and result["train_loss"] > 0
    assert next(record.parent.glob("final/adapter_model.safetensors")).stat().st_size > 0
