"""A server of `expert-cli serve` on a free port of this machine, with the memory of its processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import expert_cli


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
    command = [str(expert_cli()), "serve", *map(str, runs), "--json", "--port", "0", *options]
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
