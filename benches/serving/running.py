"""A server of `expert-cli serve` on a free port of this machine, with the memory of its processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Running:
    url: str
    ready: dict[str, Any]
    process: subprocess.Popen[str]
    log: Path

    def resident_bytes(self) -> int:
        """Of the server and all processes that it started."""
        main = psutil.Process(self.process.pid)
        return sum(process.memory_info().rss for process in (main, *main.children(recursive=True)))

    def lives(self) -> bool:
        return self.process.poll() is None


@contextmanager
def running(runs: Sequence[Path], *options: str) -> Iterator[Running]:
    command = [_program(), "serve", *map(str, runs), "--json", "--port", "0", *options]
    with tempfile.TemporaryDirectory(prefix="expert-serving-") as folder:
        log = Path(folder) / "serve.log"
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line:
                    raise SystemExit(f"the server did not start:\n{log.read_text()}")
                ready = json.loads(line)
                yield Running(ready["url"], ready, process, log)
            finally:
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _program() -> str:
    """The one of the environment variable, of this checkout, or of PATH."""
    built = ROOT / "target" / "release" / "expert-cli"
    found = os.environ.get("EXPERT_CLI") or (str(built) if built.exists() else shutil.which("expert-cli"))
    if not found:
        sys.exit("expert-cli is not built: make setup")
    return found
