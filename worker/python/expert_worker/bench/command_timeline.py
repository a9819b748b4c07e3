"""Draw where the time of a run went: tokenizing, loading, waiting for data, computing, saving."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from expert_worker.bench import draw_text, files
from expert_worker.bench.attach import record_of
from expert_worker.bench.draw_svg import picture
from expert_worker.bench.out import put, talk
from expert_worker.bench.spans import LAUNCH, Course, course
from expert_worker.errors import BadInput
from expert_worker.event_reader import EventFile
from expert_worker.report.records import PlanView, read_json, view


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, required=True, metavar="DIR", help="the folder of a run")
    parser.add_argument("--against", type=Path, metavar="DIR", help="the run before, drawn above it")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the picture as SVG")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a drawing")


def run(given: argparse.Namespace) -> int:
    files.demand_writable(given.output)
    folders = [folder for folder in (given.against, given.run) if folder is not None]
    drawn = [read(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    if given.output:
        files.write(given.output, picture(drawn))
    if given.json:
        put(json.dumps({"ok": True, "runs": [_document(it) for it in drawn]}))
        return 0
    put(draw_text.courses(drawn))
    if len(drawn) == 2:
        put("\n" + draw_text.comparison(*drawn))
    if not any(it.of(LAUNCH) for it in drawn):
        put("\non a CPU launching and computing are the same time, so only computing is drawn")
    if given.output:
        talk(f"the picture is in {given.output}")
    return 0


def read(folder: Path, name: str) -> Course:
    record = record_of(folder)
    found = course(name, EventFile(record).read(ended=True), on_cpu=_on_cpu(folder))
    if not found.steps:
        raise BadInput(
            f"{folder} has made no step yet, so there is nothing to draw",
            hint="Name a run that has begun to train.",
            code="no-steps",
        )
    return found


def _names(folders: list[Path]) -> list[str]:
    names = [folder.resolve().name for folder in folders]
    if len(names) == 2:
        return [f"before: {names[0]}", f"after: {names[1]}"]
    return names


def _on_cpu(folder: Path) -> bool:
    return view(PlanView, read_json(folder / "plan.json"))[0].machine.device.kind == "cpu"


def _document(it: Course) -> dict[str, Any]:
    return {
        "name": it.name,
        "seconds": it.seconds,
        "training_seconds": it.training_seconds,
        "steps": len(it.steps),
        "tokens": it.tokens,
        "launch_told_apart": it.split,
        "lanes": {lane: it.spent(lane) for lane in it.lanes},
        "spans": [{"lane": span.lane, "begin": span.begin, "end": span.end} for span in it.spans],
    }
