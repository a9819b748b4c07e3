"""Faults in Rust code, by cargo-mutants, which builds and tests a copy of the sources for each."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from areas import Rust
from record import ROOT, Found

# cargo-mutants' words for how a fault ended.
_NOTICED, _SURVIVED, _OUT_OF_TIME = "CaughtMutant", "MissedMutant", "Timeout"


def examine(area: str, guarded: Rust, sample: int | None, seed: int, *, in_place: Path | None) -> Found:
    possible = _listed(guarded)
    chosen = possible
    if sample is not None and sample < len(possible):
        chosen = random.Random(f"{seed} {area}").sample(possible, sample)
    found = Found(area, len(possible), list(guarded.tests))
    for ending, name in _tested(guarded, chosen if chosen is not possible else [], in_place):
        if ending == _SURVIVED:
            found.survivors.append(name)
        elif ending == _NOTICED:
            found.killed += 1
        elif ending == _OUT_OF_TIME:
            found.out_of_time += 1
        else:
            found.unviable += 1
    return found


def _listed(guarded: Rust) -> list[str]:
    done = subprocess.run(
        [*_command(guarded), "--list", "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [one["name"] for one in json.loads(done.stdout)]


def _tested(guarded: Rust, chosen: list[str], in_place: Path | None) -> list[tuple[str, str]]:
    where = ["--in-place"] if in_place else []
    wanted = [part for name in chosen for part in ("--re", f"^{re.escape(name)}$")]
    with tempfile.TemporaryDirectory() as folder:
        # Its exit code tells whether there are survivors; without outcomes it failed.
        subprocess.run(
            [
                *_command(guarded),
                *wanted,
                *where,
                "--output",
                folder,
                "--baseline",
                "run",
                "--",
                *guarded.tests,
            ],
            cwd=in_place or ROOT,
            env={**os.environ, "EXPERT_PYTHON": str(ROOT / ".venv" / "bin" / "python")},
            check=False,
        )
        outcomes = Path(folder) / "mutants.out" / "outcomes.json"
        document: dict[str, Any] = json.loads(outcomes.read_text())
    told = [one for one in document["outcomes"] if one["scenario"] != "Baseline"]
    if not told:
        raise SystemExit(f"{guarded.crate}: its tests do not pass as they are")
    return [(one["summary"], _without_place(one["scenario"]["Mutant"])) for one in told]


def _without_place(mutant: dict[str, Any]) -> str:
    """Lines move; the rest of the name stays."""
    return re.sub(r":\d+:\d+:", ":", mutant["name"])


def _command(guarded: Rust) -> list[str]:
    files = [part for file in guarded.files for part in ("--file", file)]
    return [
        "cargo",
        "mutants",
        "--package",
        guarded.crate,
        *files,
        "--no-shuffle",
        "--minimum-test-timeout",
        "300",
    ]
