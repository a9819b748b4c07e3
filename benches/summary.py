"""One line a result, whatever shape a benchmark's document has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Row = tuple[str, str, str, str]
_HEAD: Row = ("benchmark", "result", "against", "ratio")
# Of documents of many figures, those that sum them up.
_SHOWN = 6


def rows(name: str, document: Any) -> Iterator[Row]:
    """A document tells its own lines as `rows`; of others the ratios are shown, and where there is none the
    numbers."""
    told = document.get("rows") if isinstance(document, dict) else None
    if isinstance(told, list):
        for row in told:
            ratio = f"{row['ratio']:.2f}x" if row.get("ratio") is not None else ""
            yield name, str(row["what"]), str(row.get("against") or ""), ratio
        return
    flat = dict(_numbers(document))
    ratios = {path: value for path, value in flat.items() if "ratio" in path.rpartition(".")[2]}
    for path, value in ratios.items():
        where, _, last = path.rpartition(".")
        yield name, where or last, "", f"{value:.2f}x"
    rest = [path for path in flat if path not in ratios and "." not in path]
    for path in rest[:_SHOWN]:
        yield name, f"{path} {flat[path]:.4g}", "", ""


def _numbers(document: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _numbers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, float(document)


def table(lines: Sequence[Row]) -> str:
    whole = [_HEAD, *lines]
    widths = [max(len(line[place]) for line in whole) for place in range(4)]
    return "\n".join(_line(line, widths) for line in whole)


def _line(line: Row, widths: Sequence[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True)]
    return "  ".join([*words, line[3].rjust(widths[3])]).rstrip()
