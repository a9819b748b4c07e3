"""What a run found, kept by date beside the benchmarks' results."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benches" / "results"
# Faults that change nothing that can be seen, by area and name: listed with the reason, and still counted.
EXPLAINED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "explained.json").read_text())

_BEGIN, _END = "<!-- mutation scores, written by make mutants -->", "<!-- end -->"


@dataclass
class Found:
    area: str
    possible: int
    tests: list[str]
    killed: int = 0
    out_of_time: int = 0
    survivors: list[str] = field(default_factory=list)
    # Mutants that do not compile do not count.
    unviable: int = 0
    # The time was over on the clock and not on the processor: the machine was busy, or everything waited.
    undecided: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.killed + self.out_of_time + len(self.survivors)

    @property
    def noticed(self) -> int:
        return self.killed + self.out_of_time

    def document(self, seed: int) -> dict[str, Any]:
        sampled = self.tried + self.unviable < self.possible
        explained = EXPLAINED.get(self.area, {})
        document: dict[str, Any] = {
            "possible": self.possible,
            "tried": self.tried,
            "killed": self.killed,
            "out_of_time": self.out_of_time,
            "score": round(self.noticed / self.tried, 4) if self.tried else None,
            "survivors": {name: explained.get(name, "not explained") for name in sorted(self.survivors)},
            "tests": self.tests,
        }
        if self.unviable:
            document["unviable"] = self.unviable
        if self.undecided:
            document["undecided"] = sorted(self.undecided)
        if sampled:
            document["sample"] = {"seed": seed, "interval_95": interval(self.noticed, self.tried)}
        return document


def interval(hits: int, tried: int) -> list[float]:
    """Wilson's, which holds for few tries and for shares near 1."""
    if tried == 0:
        return [0.0, 1.0]
    z, share = 1.96, hits / tried
    middle = share + z * z / (2 * tried)
    reach = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    scale = 1 + z * z / tried
    return [round(max(0.0, (middle - reach) / scale), 4), round(min(1.0, (middle + reach) / scale), 4)]


def keep(document: dict[str, Any], area: str) -> Path:
    """The latest result of each area; those of other areas are carried over."""
    date = time.strftime("%Y-%m-%d")
    path = RESULTS / f"{date}-mutation.json"
    before = newest()
    kept = {**(json.loads(before.read_text()) if before else {"areas": {}}), "date": date}
    kept["areas"][area] = {**document, "date": date, "versions": versions()}
    tried = sum(one["tried"] for one in kept["areas"].values())
    noticed = sum(one["killed"] + one["out_of_time"] for one in kept["areas"].values())
    kept["tried"], kept["score"] = tried, round(noticed / tried, 4)
    path.write_text(json.dumps(kept, indent=2) + "\n")
    _show(table(kept))
    return path


def newest() -> Path | None:
    return max(RESULTS.glob("*-mutation.json"), default=None)


def table(kept: dict[str, Any]) -> str:
    lines = ["| area | faults tried | of | noticed | 95% interval of a sample |", "|---|--:|--:|--:|---|"]
    for area, one in sorted(kept["areas"].items()):
        low, high = one.get("sample", {}).get("interval_95", (None, None))
        between = "" if low is None else f"{low * 100:.0f}% to {high * 100:.0f}%"
        lines.append(
            f"| {area} | {one['tried']} | {one['possible']} | {one['score'] * 100:.0f}% | {between} |"
        )
    lines.append(f"| all | {kept['tried']} | | {kept['score'] * 100:.0f}% | |")
    return "\n".join(lines)


def _show(rows: str) -> None:
    """In CONTRIBUTING, between two marks."""
    path = ROOT / "CONTRIBUTING.md"
    before, _, rest = path.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n{rows}\n{_END}{after}")


def versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("torch", "pytest")}
    commit = _first_line(["git", "rev-parse", "--short=12", "HEAD"])
    return {"commit": commit, "python": platform.python_version(), **packages}


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
