"""Sample GPU, processor and memory beside a running train, and say what it waits for."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from expert_worker.bench import files
from expert_worker.bench.arguments import seconds
from expert_worker.bench.out import put, talk
from expert_worker.bench.show import LiveView, report
from expert_worker.bench.watch import Run, Watch, find_run, watch


def options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--run", type=Path, metavar="DIR", help="the run to watch (the newest that trains)")
    which.add_argument("--alone", action="store_true", help="watch the machine, whatever trains on it")
    parser.add_argument(
        "--interval", type=seconds, default=1.0, metavar="S", help="seconds between samples (1)"
    )
    parser.add_argument("--duration", type=seconds, default=60.0, metavar="S", help="seconds in all (60)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it as JSON, raw samples too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as an HTML page")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--quiet", action="store_true", help="no live view")


def run(given: argparse.Namespace) -> int:
    files.demand_writable(given.output)
    files.demand_writable(given.plot)
    attached = find_run(given.run, alone=given.alone)
    _tell(attached, given)
    result = _watched(attached, given)
    if given.output:
        files.write_json(given.output, result.document(raw=True))
    if given.plot:
        from expert_worker.bench.plot import plot  # Charts come with the report, and that with torch.

        files.write(given.plot, plot(result))
    put(json.dumps(result.document(raw=False)) if given.json else report(result))
    return 0


def _tell(attached: Run | None, given: argparse.Namespace) -> None:
    if given.quiet or given.json:
        return
    if attached is not None:
        talk(f"watching the run in {attached.folder}")
        if attached.watched is None:
            talk("its process does not run (any more): only its record is read")
    elif not given.alone:
        talk("no training runs here: watching the machine alone (--run DIR names a run)")


def _watched(attached: Run | None, given: argparse.Namespace) -> Watch:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    console = Console(stderr=True)
    with ExitStack() as stack:
        if console.is_terminal and not (given.quiet or given.json):
            view = stack.enter_context(LiveView(console, given.duration))
            return watch(attached, given.interval, given.duration, stop, view.show)
        return watch(attached, given.interval, given.duration, stop)
