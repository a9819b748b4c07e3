"""Draw what `expert-cli bench ablate` measured."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from expert_worker.bench.output import demand_writable, write_file
from expert_worker.document import first_fault
from expert_worker.errors import BadInput
from expert_worker.report.html import Raw, charts, document, heading, section, table
from expert_worker.report.numbers import duration, short, size
from expert_worker.terminal import write_stdout


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="the ablation.json that it wrote")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the HTML page to write")


def run_command(given: argparse.Namespace) -> int:
    demand_writable(given.output)
    write_file(given.output, page(read(given.results)))
    write_stdout(str(given.output))
    return 0


class Part(BaseModel):
    """What the page reads of ablation.json. A number that is not finite is null there."""

    model_config = ConfigDict(frozen=True, strict=True)


class Device(Part):
    name: str


class Measured(Part):
    tokens_per_second: float = Field(gt=0)
    peak_bytes: int
    ready_seconds: float
    # Whether the longest batch fitted without being split.
    fits: bool = True


class Variant(Part):
    name: str
    measured: Measured | None
    of_planned: float | None = None
    losses: str = ""
    apart: float | None = None
    why: str = ""

    @property
    def losses_in_words(self) -> str:
        if self.losses == "apart" and self.apart is not None:
            return f"{self.apart:.1%} apart"
        return "other rows" if self.losses == "not_comparable" else self.losses.replace("_", " ")


class Ablation(Part):
    expert: str
    base: str
    device: Device
    dtype: str
    rows_per_step: int
    max_seq_length: int
    steps: int
    planned: Measured
    planned_again: Measured
    variants: list[Variant]


def read(path: Path) -> Ablation:
    try:
        return Ablation.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        place, what = first_fault(error)
        raise BadInput(
            f"{path} is not a result of `expert-cli bench ablate`: {place}: {what}",
            hint="Name the ablation.json in the folder that it wrote.",
        ) from error


def page(found: Ablation) -> str:
    planned, again = found.planned, found.planned_again
    measured = [(it, it.measured) for it in found.variants if it.measured is not None]
    named = [("as planned", planned), *((it.name, of_variant) for it, of_variant in measured)]
    speed = [Bar(name, it.tokens_per_second) for name, it in named]
    memory = [Bar(name, it.peak_bytes) for name, it in named]
    head = ["", "tokens/s", "of planned", "peak memory", "ready after", "losses"]
    rows = [_row("as planned", planned, 1.0, "")]
    rows += [_row(it.name, of_variant, it.of_planned, it.losses_in_words) for it, of_variant in measured]
    rows.append(_row("as planned, again", again, again.tokens_per_second / planned.tokens_per_second, ""))
    left_out = [[it.name, it.why] for it in found.variants if it.measured is None]
    lead = (
        f"{found.expert} on {found.base}, {found.device.name} in {found.dtype}, "
        f"{found.rows_per_step} rows of {found.max_seq_length} tokens per step, "
        f"{found.steps} steps each"
    )
    return document(
        "What each optimisation is worth",
        [
            heading("What each optimisation is worth", lead),
            section(
                "Measured",
                charts([bars("Tokens per second", speed, short), bars("Peak memory", memory, size)]),
            ),
            section("One thing changed at a time", table(head, rows, frozenset({1, 2, 3, 4}))),
            section("Not measured here", table(["", "why"], left_out)),
        ],
    )


def _row(name: str, measured: Measured, ratio: float | None, losses: str) -> list[object]:
    return [
        name,
        short(measured.tokens_per_second),
        "" if ratio is None else f"{ratio:.2f}x",
        size(measured.peak_bytes),
        duration(measured.ready_seconds),
        losses if measured.fits else f"{losses}, did not fit and was split".removeprefix(", "),
    ]


@dataclass(frozen=True)
class Bar:
    name: str
    value: float


def bars(title: str, drawn: Sequence[Bar], shown: Callable[[float], str]) -> str:
    """A card; nothing where there is nothing to draw."""
    most = max((bar.value for bar in drawn), default=0.0)
    if most <= 0:
        return ""
    rows = [
        [bar.name, _bar(bar.value / most, "c1" if place == 0 else "c0"), shown(bar.value)]
        for place, bar in enumerate(drawn)
    ]
    body = table(["", "", ""], rows, frozenset({2}), "bars")
    return f"<figure><figcaption><b>{escape(title)}</b></figcaption>{body}</figure>"


def _bar(share: float, hue: str) -> Raw:
    width = f'style="width:{share * 100:.1f}%"'
    return Raw(
        f'<div class="use"><div class="bar" style="min-width:120px"><i class="{hue}" {width}></i></div></div>'
    )
