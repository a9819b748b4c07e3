"""Repeat every attack and print a table: `python -m tests.adversary [--area NAME] [--quick]`.

"Survived" is the right result, or a refusal in words with a documented exit code; no hang, no crash, nothing
lost or written outside, no raw control text on the terminal, and nothing that is silently another result.
The exit code is 1 unless every attempt survived.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.adversary import areas, cli, world
from tests.adversary.attempt import Outcome, carry_out

PACKAGES = ("torch", "transformers", "peft", "bitsandbytes", "tokenizers", "pyarrow")


def main() -> int:
    given = arguments()
    outcomes = []
    try:
        for name in chosen(given):
            progress(f"{name}: begins")
            outcome = carry_out(
                areas.find(name), world.FOLDER, quick=given.quick, progress=progress, only=given.attempt
            )
            outcomes.append(outcome)
            if given.results:  # After each area: a run of all takes long.
                keep(given.results, document([outcome], quick=given.quick))
            progress(f"{name}: {outcome.survived} of {outcome.attempts} in {outcome.seconds:.0f} s")
    finally:
        world.FORGE.close()
    print(table(outcomes))
    return 0 if all(not outcome.fell for outcome in outcomes) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.adversary",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--area", action="append", choices=areas.NAMES, metavar="NAME", help=f"of {', '.join(areas.NAMES)}"
    )
    parser.add_argument("--attempt", metavar="TEXT", help="only attempts whose name has this text")
    parser.add_argument("--quick", action="store_true", help="a sample of each area")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="keep the table there, as JSON, with areas taken before",
    )
    parser.add_argument(
        "--rest", action="store_true", help="only areas that FILE does not list with every attempt survived"
    )
    given = parser.parse_args()
    if given.rest and not given.results:
        parser.error("--rest needs --results")
    return given


def chosen(given: argparse.Namespace) -> list[str]:
    names: list[str] = given.area or list(areas.NAMES)
    if not given.rest or not given.results.exists():
        return names
    kept = json.loads(given.results.read_text())
    whole = {
        area["area"]
        for area in kept["areas"]
        if area["survived"] == area["attempts"] and area["quick"] == given.quick
    }
    return [name for name in names if name not in whole]


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table(outcomes: list[Outcome]) -> str:
    lines = ["| area | attempts | survived | what did not |", "|---|--:|--:|---|"]
    for one in outcomes:
        names = sorted({name for name, _ in one.fell})
        missed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        lines.append(f"| {one.area.title} | {one.attempts:,} | {one.survived:,} | {missed} |")
    attempts, survived = (sum(getattr(o, what) for o in outcomes) for what in ("attempts", "survived"))
    return "\n".join([*lines, f"| together | {attempts:,} | {survived:,} | |"])


def document(outcomes: list[Outcome], *, quick: bool) -> dict[str, Any]:
    taken = time.strftime("%Y-%m-%d", time.gmtime())
    commit = _said("git", "rev-parse", "HEAD")
    return {
        "taken": taken,
        "expert_cli": _said(str(cli.binary()), "--version"),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "processor": _processor(),
        "cores": os.cpu_count(),
        "areas": [
            {
                "area": one.area.name,
                "title": one.area.title,
                "attempts": one.attempts,
                "survived": one.survived,
                "seconds": round(one.seconds, 1),
                "quick": quick,
                "taken": taken,
                "commit": commit,
                "did_not": [{"attempt": name, "fault": fault} for name, fault in one.fell],
            }
            for one in outcomes
        ],
    }


def keep(path: Path, found: dict[str, Any]) -> None:
    """Areas that were taken before stay, each with its commit: a series may be interrupted."""
    before = json.loads(path.read_text()) if path.exists() else {"areas": []}
    taken = {area["area"]: area for area in [*before["areas"], *found["areas"]]}
    found["areas"] = [taken[name] for name in areas.NAMES if name in taken]
    for what in ("attempts", "survived"):
        found[what] = sum(area[what] for area in found["areas"])
    path.write_text(json.dumps({**before, **found}, indent=2) + "\n")


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=cli.ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
