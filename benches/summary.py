"""One table of what the benchmarks gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = tuple[str, str, str, str]
_HEAD: Row = ("benchmark", "result", "against", "ratio")


def rows(name: str, document: Mapping[str, Any]) -> Iterator[Row]:
    """A benchmark returns its lines as `rows`: `what` and, for a comparison, `against` and `ratio`."""
    for row in document["rows"]:
        ratio = f"{row['ratio']:.2f}x" if row.get("ratio") is not None else ""
        yield name, str(row["what"]), str(row.get("against") or ""), ratio


def table(lines: Sequence[Row]) -> str:
    whole = [_HEAD, *lines]
    widths = [max(len(line[place]) for line in whole) for place in range(4)]
    return "\n".join(_line(line, widths) for line in whole)


def _line(line: Row, widths: Sequence[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(line[:3], widths[:3], strict=True)]
    return "  ".join([*words, line[3].rjust(widths[3])]).rstrip()
