"""cache.json: what a cache was made of, what became of the rows, and what the rows are like."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError

from expert_worker.document import Document

FILE = "cache.json"
FORMAT = 1


class SourceLedger(Document):
    """What became of the rows of one source."""

    name: str
    split: Literal["train", "validation"]
    read: int
    used: int
    bad: int
    truncated: int
    split_rows: int
    dropped_overlong: int
    dropped_unsupervised: int
    dropped_duplicate: int
    dropped_short: int
    dropped_long: int
    dropped_mixture: int
    parsed_dialogues: int
    eos_added: int
    tokens: int
    supervised_tokens: int
    bytes: int


class SplitStatistics(Document):
    rows: int
    documents: int
    tokens: int
    supervised_tokens: int
    # Share of the rows' capacity that holds tokens; null without packing.
    fill: float | None = None
    # Documents by length: how many are at most this many tokens long, and longer than the bound before. The
    # first bound counts nothing.
    length_histogram: tuple[tuple[int, int], ...]
    # Shortest, quarter, median, three quarters, 90 %, 99 %, longest.
    length_quantiles: tuple[int, ...]
    bytes: int


class Description(Document):
    format: int
    key: str
    # Everything that the key is made of.
    inputs: dict[str, JsonValue]
    template: str | None = None
    encoder: str
    sources: tuple[SourceLedger, ...]
    splits: dict[str, SplitStatistics]

    def totals(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for source in self.sources:
            for name, value in source.model_dump(exclude={"name", "split"}).items():
                counts[name] = counts.get(name, 0) + value
        return counts


def read_description(folder: Path) -> Description | None:
    """None if it does not exist, has another format, or does not match the files beside it."""
    try:
        found = Description.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    whole = all(_size(folder / name) == split.bytes for name, split in found.splits.items())
    return found if found.format == FORMAT and whole else None


def _size(split: Path) -> int:
    from expert_worker.pretokenize.cache import DATA_FILE

    try:
        return (split / DATA_FILE).stat().st_size
    except OSError:
        return -1
