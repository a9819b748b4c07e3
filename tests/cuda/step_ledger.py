"""What a step may cost, for each trial in ledger.json: launches, products, waits of the host, copies, and the
allocator's peak. They may only fall."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("ledger.json")
COUNTED = ("kernels", "products", "waits", "copies", "mebibytes")
# With a graph: how often it is launched, and the kernels, products and copies that this launches.
REPLAYED = ("replays", "replayed")
# The host waits once a step, for the copy of loss and gradient norm, while the device computes the next step:
# for an event, which torch does not warn of. Where the optimizer cannot skip a step by itself, the host waits
# for the values.
WAITS: dict[str, int] = {}
WAITS_AT_ONCE = {"trainer.py:_read": 1}
# What the allocator reserves beside what is planned; the plan leaves a margin of the card's memory unused.
MOST_OF_PLAN, LEAST_OF_PLAN = 1.01, 0.95


def costs(step: dict[str, Any]) -> dict[str, int]:
    """What a graph's launches use is allocated once, in its pool."""
    peak = step["peak_reserved" if step["replays"] else "peak_allocated"]
    kinds = (*COUNTED, *REPLAYED) if step["replays"] else COUNTED
    found: dict[str, int] = {kind: peak >> 20 if kind == "mebibytes" else step[kind] for kind in kinds}
    return found


def check_step(name: str, step: dict[str, Any]) -> None:
    check(FILE, name, costs(step))


def check(file: Path, name: str, found: dict[str, int]) -> None:
    """`UPDATE=1` writes lower figures into the ledger, never higher ones."""
    ledger = json.loads(file.read_text())
    allowed = ledger.get(name)
    if os.environ.get("UPDATE") == "1" and (allowed is None or all(found[k] <= allowed[k] for k in found)):
        ledger[name] = found
        file.write_text(json.dumps(ledger, indent=2, sort_keys=True) + "\n")
        return
    assert allowed is not None, f"{name} is not in {file.name}: UPDATE=1 enters it"
    more = {kind: (allowed[kind], found[kind]) for kind in found if found[kind] > allowed[kind]}
    assert not more, f"{name} costs more than its ledger allows (allowed, found): {more}"


def check_memory(plan: dict[str, Any], step: dict[str, Any], *, least: float = LEAST_OF_PLAN) -> None:
    """The allocator reserves what was planned, and not much less. The context is outside of it."""
    estimate = plan["machine"]["estimate"]
    planned = estimate["total"] - estimate["context"] - estimate["process"]
    share = step["peak_reserved"] / planned
    assert least <= share <= MOST_OF_PLAN, f"reserved {step['peak_reserved']}, planned {planned}: {share:.3f}"
