"""From a fresh clone to the first training step, with every package cache empty: `python -m benches.setup`.

Runs `make demo` of the committed state in a new folder, on two cores, until the first step is in the run's
events; then it is stopped. Rust's toolchain and Python are there beforehand, as the README asks. It downloads
about 6 GB and needs both cores for minutes; `--keep` adds the result to `benches/results`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches"))

from history import keep  # noqa: E402

REACH = 300.0
_EVENTS = "experts/expert-sql/weights/demo/events.jsonl"
# What `make demo` leaves when a part of it is done.
_PARTS = {
    "python environment": ".venv/bin/uv",
    "python packages": ".venv/.runtime",
    "native module": ".venv/.worker",
    "command line": "target/release/expert-cli",
}
_STEP = b'"type":"progress"'


@dataclass
class Watched:
    """Seconds until each part was there; `first_step` is None where the command ended before it."""

    parts: dict[str, float] = field(default_factory=dict)
    first_step: float | None = None
    exit_code: int | None = None


def watch(command: list[str], folder: Path, environment: Mapping[str, str], log: Path) -> Watched:
    """Runs the command until the first step, then stops it and what it started."""
    found = Watched()
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, process_group=0
        )
    try:
        while found.exit_code is None and found.first_step is None:
            # What the command left in its last moments counts too.
            found.exit_code = process.poll()
            seconds = time.monotonic() - began
            for name, file in _PARTS.items():
                if name not in found.parts and (folder / file).exists():
                    found.parts[name] = seconds
            events = folder / _EVENTS
            if events.is_file() and _STEP in events.read_bytes():
                found.first_step = seconds
            time.sleep(0.2)
    finally:
        if process.poll() is None:
            # What a shell starts in the background ignores SIGINT.
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(150)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return found


def cold(folder: Path) -> dict[str, str]:
    """The environment with separate caches. Where packages come from is as it was."""
    cargo = folder / "cargo"
    cargo.mkdir(parents=True)
    configured = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "config.toml"
    if configured.is_file():
        shutil.copy(configured, cargo)
    caches = {"UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip", "CARGO_HOME": "cargo", "EXPERT_HOME": "experts"}
    own = {name: str(folder / place) for name, place in caches.items()}
    left_out = {"VIRTUAL_ENV", "EXPERT_PYTHON", "PYTHONPATH", "CARGO_TARGET_DIR", "MAKEFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in left_out} | own


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.setup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="add the result to benches/results")
    parser.add_argument("--where", type=Path, help="a disk with 15 GB free (default: the temporary folder)")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    with tempfile.TemporaryDirectory(dir=given.where, prefix="expert-setup-") as temporary:
        clone, caches = Path(temporary) / "clone", Path(temporary) / "caches"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        log = Path(temporary) / "log"
        found = watch(["make", "demo"], clone, cold(caches), log)
        if found.first_step is None:
            print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
            print(f"make demo ended with {found.exit_code} before the first step", file=sys.stderr)
            return 1
        document = {
            "cores": given.cores,
            "seconds": {**found.parts, "first step": found.first_step},
            "reach": REACH,
            "bytes": {name: size(clone / name) for name in (".venv", "target")},
            "rows": [
                {
                    "what": f"make demo, caches empty: first step after {found.first_step:.0f} s",
                    "against": f"{REACH:.0f} s",
                    "ratio": found.first_step / REACH,
                }
            ],
        }
    print(json.dumps(document, indent=2))
    if given.keep:
        path = keep({"setup": document}, ROOT / "benches" / "results", time.strftime("%Y-%m-%d"))
        print(f"kept in {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
