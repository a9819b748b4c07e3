"""Draw what `expert-cli bench ablate` measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from expert_worker.bench.output import demand_writable, number, size, write_file
from expert_worker.errors import BadInput
from expert_worker.report.html import Raw, charts, document, heading, section, table
from expert_worker.terminal import write_stdout


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="the ablation.json that it wrote")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the HTML page to write")


def run_command(given: argparse.Namespace) -> int:
    demand_writable(given.output)
    write_file(given.output, page(read(given.results)))
    write_stdout(str(given.output))
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


def page(results: dict[str, Any]) -> str:
    planned = results["planned"]
    measured = [it for it in results["variants"] if it.get("measured")]
    speed = [Bar("as planned", planned["tokens_per_second"])]
    speed += [Bar(it["name"], it["measured"]["tokens_per_second"]) for it in measured]
    memory = [Bar("as planned", planned["peak_bytes"] / 2**20)]
    memory += [Bar(it["name"], it["measured"]["peak_bytes"] / 2**20) for it in measured]
    head = ["", "tokens/s", "of planned", "peak memory", "ready after, s", "losses"]
    rows = [_row("as planned", planned, 1.0, "")]
    rows += [_row(it["name"], it["measured"], it["of_planned"], _losses(it)) for it in measured]
    rows.append(_row("as planned, again", results["planned_again"], _again(results), ""))
    left_out = [[it["name"], it["why"]] for it in results["variants"] if not it.get("measured")]
    lead = (
        f"{results['expert']} on {results['base']}, {results['device']['name']} in {results['dtype']}, "
        f"{results['rows_per_step']} rows of {results['max_seq_length']} tokens per step, "
        f"{results['steps']} steps each"
    )
    return document(
        "What each optimisation is worth",
        [
            heading("What each optimisation is worth", lead),
            section("Measured", charts([bars("Tokens per second", speed), bars("Peak memory, MiB", memory)])),
            section("One thing changed at a time", table(head, rows, frozenset({1, 2, 3, 4}))),
            section("Not measured here", table(["", "why"], left_out)),
        ],
    )


def _again(results: dict[str, Any]) -> float:
    again, planned = results["planned_again"], results["planned"]
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
    relation = str(variant["losses"])
    return f"{100 * variant['apart']:.1f}% apart" if relation == "apart" else relation.replace("_", " ")


@dataclass(frozen=True)
class Bar:
    name: str
    value: float


def bars(title: str, drawn: Sequence[Bar]) -> str:
    """A card; nothing where there is nothing to draw."""
    most = max((bar.value for bar in drawn), default=0.0)
    if most <= 0:
        return ""
    rows = [
        [bar.name, _bar(bar.value / most, "c1" if place == 0 else "c0"), number(bar.value)]
        for place, bar in enumerate(drawn)
    ]
    body = table(["", "", ""], rows, frozenset({2}))
    return f"<figure><figcaption><b>{escape(title)}</b></figcaption>{body}</figure>"


def _bar(share: float, hue: str) -> Raw:
    width = f'style="width:{share * 100:.1f}%"'
    return Raw(
        f'<div class="use"><div class="bar" style="min-width:120px"><i class="{hue}" {width}></i></div></div>'
    )
