"""Runs one step of the set-up so that nobody waits without knowing for what.

    show_progress.py "Python packages" --grows .venv -- uv pip install ...

On a terminal the command shows its own progress. Elsewhere (a pipe, CI) a line every ten seconds gives the
time and how much the command has written, and its output is shown only if it fails. Needs only Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

INTERVAL = 10.0
LAST_LINES = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="show_progress.py", description=__doc__)
    parser.add_argument("what")
    parser.add_argument("--grows", type=Path, help="a folder that the command fills; what was added is shown")
    parser.add_argument("--every", type=float, default=INTERVAL, metavar="SECONDS")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    print(f"installing {given.what}", file=sys.stderr, flush=True)
    began = time.monotonic()
    if sys.stderr.isatty():
        code = subprocess.run(given.command, check=False).returncode
    else:
        code = run_quietly(given.command, given.what, given.grows, given.every)
    if code == 0:
        print(f"installed {given.what} in {shown(time.monotonic() - began)}", file=sys.stderr, flush=True)
    return code


def run_quietly(command: list[str], what: str, grows: Path | None, every: float) -> int:
    began = time.monotonic()
    before = bytes_below(grows) if grows else 0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(every)
                break
            except subprocess.TimeoutExpired:
                grown = (bytes_below(grows) - before) / 1e9 if grows else 0.0
                size = f", {grown:.1f} GB so far" if grown >= 0.1 else ""
                seconds = shown(time.monotonic() - began)
                print(f"  {what}: {seconds}{size}", file=sys.stderr, flush=True)
        if code:
            log.seek(0)
            sys.stderr.write("\n".join(log.read().decode(errors="replace").splitlines()[-LAST_LINES:]) + "\n")
    return code


def bytes_below(folder: Path) -> int:
    """A file that another process moves away in the meantime does not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total


def shown(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02} s" if whole >= 60 else f"{whole} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
