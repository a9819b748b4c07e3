"""Show who holds GPU memory, and end what dead runs left behind.

What a process caches of GPU memory is its own: no other program can empty it. What can be done from
outside is to end workers that are left over from dead runs, which frees all they hold. A run that lives
empties its own cache where the manifest sets memory_clear_every.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from expert_worker.bench.holders import Freed, Held, free, look
from expert_worker.bench.nvml import Gpus, Holder, Reading, open_gpus
from expert_worker.bench.out import put, talk
from expert_worker.bench.text import size, table


def options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--dry-run", action="store_true", help="show, and end nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")


def run(given: argparse.Namespace) -> int:
    opened = open_gpus()
    holding: list[Holder] = []
    readings: list[Reading] = []
    if isinstance(opened, Gpus):
        holding, readings = opened.holders(), opened.read()
    held = look(holding)
    freed = [] if given.dry_run else free(held)
    names: list[str] = []
    if isinstance(opened, Gpus):
        names = opened.names
        readings = opened.read() if freed else readings
        opened.close()
    reason = opened if isinstance(opened, str) else None
    if given.json:
        put(json.dumps(_document(reason, names, readings, held, freed, given.dry_run)))
    else:
        _show(reason, names, readings, held, freed, given.dry_run)
    return 0 if all(it.ended for it in freed) else 1


def _document(
    reason: str | None,
    names: list[str],
    readings: list[Reading],
    held: list[Held],
    freed: list[Freed],
    dry: bool,
) -> dict[str, object]:
    return {
        "ok": all(it.ended for it in freed),
        "gpu": {"found": reason is None, "reason": reason},
        "gpus": [
            {"name": name, "used": reading.memory_used, "total": reading.memory_total}
            for name, reading in zip(names, readings, strict=True)
        ],
        "processes": [{**asdict(it), "freeable": it.freeable} for it in held],
        "dry_run": dry,
        "freed": [asdict(it) for it in freed],
    }


def _show(
    reason: str | None,
    names: list[str],
    readings: list[Reading],
    held: list[Held],
    freed: list[Freed],
    dry: bool,
) -> None:
    if reason is not None:
        talk(f"{reason}; only workers of expert-cli are listed")
    for name, reading in zip(names, readings, strict=True):
        used, total = reading.memory_used or 0, reading.memory_total or 0
        put(f"GPU {reading.index} {name}: {size(used)} of {size(total)} in use")
    if held:
        rows = [[it.program[:60], str(it.pid), _memory(it), it.standing] for it in held]
        put(table(["program", "process", "GPU memory", "what it is"], rows))
    else:
        put("nobody holds GPU memory, and no worker of expert-cli runs")
    left_over = [it for it in held if it.freeable]
    for it in freed:
        put(f"process {it.pid}: {it.said}")
    if dry and left_over:
        put(f"--dry-run: {len(left_over)} worker(s) of dead runs would be ended")
    elif held and not left_over:
        put("nothing to free: no worker of a dead run. What live processes cache, only they can empty.")


def _memory(it: Held) -> str:
    parts = [f"{gpu}: {size(count) if count is not None else '?'}" for gpu, count in it.bytes_by_gpu.items()]
    return ", ".join(parts) or "-"
