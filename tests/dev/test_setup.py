"""`make` sets up the virtual environment, also after an attempt that failed halfway."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_an_environment_without_pip_is_completed(tmp_path: Path) -> None:
    """Debian's Python leaves one where the package python3-venv is missing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "bootstrap.lock").write_text("")
    command = ["make", f"PYTHON={sys.executable}", ".venv/bin/uv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
