"""Numbers, tables and bars as text that is plain enough for a pipe, and results as files."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expert_worker.errors import Storage, storage_error

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    drawn = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join(drawn)


def bar(share: float, width: int) -> str:
    """`share` of `width` cells, to an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def number(value: float) -> str:
    """Three digits that matter; large ones with separators."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if size >= 100 else f"{value:.3g}"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024 or unit == "GiB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def demand_writable(path: Path | None) -> None:
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        why = "is a folder" if path.is_dir() else "cannot be written"
        raise Storage(f"{path} {why}", hint="Name a file in a folder that is there and may be written.")


def write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise storage_error(error, f"write {path}") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    write_file(path, json.dumps(document, indent=2) + "\n")


def positive_seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value
