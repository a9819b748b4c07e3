"""The gain of `train --all` from forking workers from one warm parent, and from training in parallel.

    python benches/shelf/run.py [CLI]

Four experts on the embedded base, one after the other: forked against separate, in seconds per expert. Then
two experts of some steps each: in parallel with one thread each against one after the other with two,
in total tokens per second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import ROOT, expert_cli

LAST = ("training.config.evaluation_strategy=no", "training.config.load_best_model_at_end=false")
SHORT = ("training.config.max_steps=1", "training.config.batch_size=1", *LAST)
STEPS = 6


def shelf(folder: Path, cli: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        subprocess.run([cli, "init", name, "--parent", folder], check=True, capture_output=True)
    return folder


def train(cli: Path, folder: Path, *more: str) -> tuple[float, dict[str, Any]]:
    command = [cli, "train", "--all", folder, "--device", "cpu", "--no-evaluate", "--fresh", "--json", *more]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        sys.exit(f"training failed:\n{done.stderr[-2000:]}")
    return seconds, json.loads(done.stdout)


def settings(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def start_up(cli: Path, folder: Path) -> dict[str, Any]:
    place = shelf(folder / "four", cli, ("a", "b", "c", "d"))
    short = settings(*SHORT)
    train(cli, place, "--jobs", "1", *short)  # Token caches, and files in memory, for both sides.
    separate, _ = train(cli, place, "--jobs", "1", "--separate", *short)
    forked, _ = train(cli, place, "--jobs", "1", *short)
    return {
        "separate_seconds": round(separate, 1),
        "forked_seconds": round(forked, 1),
        "ratio": round(separate / forked, 2),
        "saved_seconds_an_expert": round((separate - forked) / 4, 1),
    }


def side_by_side(cli: Path, folder: Path) -> dict[str, Any]:
    place = shelf(folder / "two", cli, ("a", "b"))
    steps = settings(f"training.config.max_steps={STEPS}", *LAST)
    rates = {}
    for jobs in ("1", "2"):
        _, found = train(cli, place, "--jobs", jobs, *steps)
        each = [one["result"]["tokens_per_second"] for one in found["experts"]]
        rates[jobs] = sum(each) if jobs == "2" else sum(each) / len(each)
    return {
        "one_after_the_other": round(rates["1"]),
        "side_by_side": round(rates["2"]),
        "ratio": round(rates["2"] / rates["1"], 2),
    }


def main() -> None:
    cli = expert_cli(sys.argv[1] if len(sys.argv) > 1 else None)
    with tempfile.TemporaryDirectory() as folder:
        start, slots = start_up(cli, Path(folder)), side_by_side(cli, Path(folder))
    saved = f"four experts forked from a warm parent: {start['saved_seconds_an_expert']} s saved an expert"
    together = f"two experts side by side: {slots['side_by_side']} tokens/s together"
    rows = [
        {"what": saved, "against": "a worker each", "ratio": start["ratio"]},
        {"what": together, "against": "one after the other", "ratio": slots["ratio"]},
    ]
    print(json.dumps({"start_up": start, "slots": slots, "rows": rows}))


if __name__ == "__main__":
    main()
