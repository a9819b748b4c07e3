"""Measures the gain of each optimisation on this machine: on and off, each in a separate process.

    python scripts/test_optimizations.py [--expert expert-sql] [--only packing,cache] [--output DIR]

The work is `expert-cli bench ablate`; this script chooses the expert and the embedded base, so that it runs
on any machine. Arguments after `--` are passed to it unchanged: -- --set training.config.max_seq_length=256
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EMBEDDED = "smollm2-135m"


def main() -> int:
    given, more = arguments(sys.argv[1:])
    found = cli(given.cli)
    if found is None:
        print("error: expert-cli is not built", file=sys.stderr)
        print("hint: run `make setup`, or name it with --cli", file=sys.stderr)
        return 3
    manifest = ROOT / "experts" / given.expert / "manifest.json"
    if not manifest.is_file():
        there = ", ".join(sorted(path.parent.name for path in (ROOT / "experts").glob("*/manifest.json")))
        print(f"error: there is no expert {given.expert}\nhint: there are {there}", file=sys.stderr)
        return 2
    command = [str(found), "bench", "ablate", "-m", str(manifest), "--model", given.model]
    command += ["--steps", str(given.steps)]
    command += ["--only", given.only] if given.only else []
    command += ["-o", str(given.output)] if given.output else []
    command += ["--list"] if given.list else []
    command += ["--json"] if given.json else []
    return subprocess.run([*command, *more], check=False).returncode


def arguments(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--expert", default="expert-sql", help="a folder of experts/ (expert-sql)")
    parser.add_argument("--model", default=EMBEDDED, help=f"the base to train on ({EMBEDDED})")
    parser.add_argument("--steps", type=int, default=4, help="steps of one measurement (4)")
    parser.add_argument("--only", metavar="NAMES", help="only these, with commas between: see --list")
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for ablation.json and .html")
    parser.add_argument("--list", action="store_true", help="show what would be measured, and stop")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--cli", type=Path, help="the expert-cli to run")
    return parser.parse_args(words[:at]), words[at + 1 :]


def cli(named: Path | None) -> Path | None:
    name = "expert-cli.exe" if os.name == "nt" else "expert-cli"
    built = ROOT / "target" / "release" / name
    found = named if named is not None else built if built.is_file() else shutil.which(name)
    return Path(found) if found is not None and Path(found).is_file() else None


if __name__ == "__main__":
    sys.exit(main())
