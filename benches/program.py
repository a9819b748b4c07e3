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
EXPERT_CLI = ROOT / "target" / "release" / "expert-cli"


def run(*words: object, at: Path | None = None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One command and its JSON document. Its messages go to the terminal."""
    command = [str(EXPERT_CLI), *map(str, words), "--json"]
    done = subprocess.run(
        command, cwd=at, env=os.environ | (env or {}), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
