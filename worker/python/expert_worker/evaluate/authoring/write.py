"""Dataset files: one JSON object per line, the same bytes on every platform."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from expert_worker.errors import BadInput

SPLITS = ("train", "validation", "test")


def refuse_existing(output: Path, *others: str) -> None:
    """Before the files of a data set, and others beside them, are written."""
    if output.exists() and not output.is_dir():
        raise BadInput(
            f"{output} is not a folder",
            code="not-a-folder",
            hint="Choose another folder with --output.",
        )
    for name in (*(f"{split}.jsonl" for split in SPLITS), *others):
        if (output / name).exists():
            raise BadInput(
                f"{output / name} is there already",
                code="exists",
                hint="Choose another --output, or remove it first.",
            )


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def end_at_interrupt() -> None:
    """Ctrl-C ends the process at once. An exception would be lost where it is raised while SQLite calls back:
    the query would count as refused, and other rows would be written than without it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def arguments(
    description: str, default: Path, argv: Sequence[str] | None = None, *, train: int = 4800
) -> argparse.Namespace:
    """What every expert's generate.py takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=1, help="random seed (default 1)")
    parser.add_argument("--train", type=int, default=train, help=f"rows to train on (default {train})")
    parser.add_argument(
        "--held-out", type=int, default=400, help="rows to validate and to test on (default 400)"
    )
    parser.add_argument(
        "--out", type=Path, default=default, help="folder for train, validation and test .jsonl"
    )
    return parser.parse_args(argv)
