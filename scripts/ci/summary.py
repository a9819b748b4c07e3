#!/usr/bin/env python3
"""What came of the experts of a matrix, as Markdown: scripts/ci/summary.py MATRIX OUT

Goes into the run's page where there is one, and to standard output."""

import json
import os
import sys
from pathlib import Path
from typing import Any

HEAD = "| expert | | right: base | right: adapter | loss | tokens/s |\n|---|---|--:|--:|--:|--:|\n"


def main() -> int:
    experts = [entry["expert"] for entry in json.loads(sys.argv[1])["include"]]
    text = "## Experts\n\n" + (table(experts, Path(sys.argv[2])) if experts else "No expert changed.\n")
    print(text)
    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if page:
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(text)
    return 0


def table(experts: list[str], out: Path) -> str:
    rows = "".join(line(expert, out / expert) for expert in experts)
    return f"{HEAD}{rows}\nThe full reports are this run's artifacts.\n"


def line(expert: str, folder: Path) -> str:
    result, scores = read(folder / "run.json").get("result") or {}, read(folder / "evaluation.json")
    loss, speed = result.get("train_loss"), result.get("tokens_per_second")
    cells = [
        expert,
        state(folder),
        share(scores.get("base")),
        share(scores.get("adapter")),
        f"{loss:.4f}" if loss is not None else "",
        f"{speed:,.0f}" if speed is not None else "",
    ]
    return "| " + " | ".join(cells) + " |\n"


def state(folder: Path) -> str:
    """The step that it came to: a failed one is the last that was begun."""
    try:
        step = (folder / "step").read_text(encoding="utf-8").strip()
    except OSError:
        return "did not start"
    return "trained" if step == "done" else f"**failed in {step}**"


def share(found: Any) -> str:
    if not found or "accuracy" not in found:
        return ""
    return f"{found['accuracy']:.1%} ({found['low']:.0%} to {found['high']:.0%})"


def read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
