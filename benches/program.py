"""Runs the built expert-cli for a benchmark."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "target" / "release" / ("expert-cli.exe" if os.name == "nt" else "expert-cli")


def expert_cli(named: Path | str | None = None) -> Path:
    """The one that is named, by the caller or by the environment variable EXPERT_CLI, or the built one."""
    found = Path(named or os.environ.get("EXPERT_CLI") or BUILT)
    if not found.is_file():
        raise SystemExit(f"there is no expert-cli at {found}: run `make setup`, or set EXPERT_CLI")
    return found.resolve()


def run(*words: object, at: Path | None = None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One command and its JSON document. Its messages go to the terminal."""
    command = [str(expert_cli()), *map(str, words), "--json"]
    done = subprocess.run(
        command, cwd=at, env=os.environ | (env or {}), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
