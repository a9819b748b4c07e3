"""Draw what `expert-cli bench ablate` measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from expert_worker.bench import files
from expert_worker.bench.out import put
from expert_worker.bench.text import number, size
from expert_worker.errors import BadInput


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="the ablation.json that it wrote")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the HTML page to write")


def run(given: argparse.Namespace) -> int:
    files.demand_writable(given.output)
    files.write(given.output, drawn(read(given.results)))
    put(str(given.output))
    return 0


def read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInput(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not {"planned", "variants"} <= document.keys():
        raise BadInput(f"{path} is not a result of `expert-cli bench ablate`")
    return document


def drawn(document: dict[str, Any]) -> str:
    from expert_worker.bench.bars import Bar, bars
    from expert_worker.bench.page import charts, page
    from expert_worker.report.parts import section, table

    planned = document["planned"]
    measured = [it for it in document["variants"] if it.get("measured")]
    speed = [Bar("as planned", planned["tokens_per_second"])]
    speed += [Bar(it["name"], it["measured"]["tokens_per_second"]) for it in measured]
    memory = [Bar("as planned", planned["peak_bytes"] / 2**20)]
    memory += [Bar(it["name"], it["measured"]["peak_bytes"] / 2**20) for it in measured]
    head = ["", "tokens/s", "of planned", "peak memory", "ready after, s", "losses"]
    rows = [_row("as planned", planned, 1.0, "")]
    rows += [_row(it["name"], it["measured"], it["of_planned"], _losses(it)) for it in measured]
    rows.append(_row("as planned, again", document["planned_again"], _again(document), ""))
    left_out = [[it["name"], it["why"]] for it in document["variants"] if not it.get("measured")]
    lead = (
        f"{document['expert']} on {document['base']}, {document['device']['name']} in {document['dtype']}, "
        f"{document['rows_per_step']} rows of {document['max_seq_length']} tokens per step, "
        f"{document['steps']} steps each"
    )
    return page(
        "What each optimisation is worth",
        lead,
        [
            section("Measured", charts([bars("Tokens per second", speed), bars("Peak memory, MiB", memory)])),
            section("One thing changed at a time", table(head, rows, frozenset({1, 2, 3, 4}))),
            section("Not measured here", table(["", "why"], left_out)),
        ],
    )


def _again(document: dict[str, Any]) -> float:
    again, planned = document["planned_again"], document["planned"]
    return float(again["tokens_per_second"]) / float(planned["tokens_per_second"])


def _row(name: str, measured: dict[str, Any], ratio: float, losses: str) -> list[object]:
    return [
        name,
        number(measured["tokens_per_second"]),
        f"{ratio:.2f}x",
        size(measured["peak_bytes"]),
        f"{measured['ready_seconds']:.1f}",
        losses,
    ]


def _losses(variant: dict[str, Any]) -> str:
    told = str(variant["losses"])
    return f"{100 * variant['apart']:.1f}% apart" if told == "apart" else told.replace("_", " ")
