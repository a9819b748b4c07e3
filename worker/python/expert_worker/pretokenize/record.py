"""cache.json: what a cache was made of, what became of the rows, and what the rows are like."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from expert_worker.checkpoint import files
from expert_worker.document import Document

FILE = "cache.json"
DATA_FILE = "data-00000-of-00001.arrow"
FORMAT = 2


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
    # Rows whose text the template's interpreter has written, not its compiled form.
    interpreted: int = 0
    eos_added: int
    tokens: int
    supervised_tokens: int
    bytes: int
    # Fields that nothing was read from, and in how many rows.
    unused_fields: dict[str, int] = Field(default_factory=dict)


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
    # Of the Arrow file.
    sha256: str


class EncoderCost(Document):
    """Why Hugging Face tokenizers encodes, and at what price."""

    reason: str
    rows: int
    # MB of text per second of processor time.
    megabytes_per_second: float | None
    # How many times as long as the fast encoder takes; null where that one cannot encode the rows at all.
    times_slower: float | None

    def words(self) -> str:
        if self.times_slower is not None:
            return f"{self.times_slower:.1f} times slower, measured on {self.rows} rows"
        if self.megabytes_per_second is not None:
            return (
                f"{self.megabytes_per_second:.2f} MB of text per CPU second, measured on {self.rows} rows; "
                "the fast encoder cannot encode them, so how much slower that is stays unknown"
            )
        return "how much slower is unknown: no row could be measured"

    def as_json(self) -> dict[str, JsonValue]:
        return {**self.model_dump(mode="json"), "words": self.words()}


class Description(Document):
    format: int
    key: str
    # Everything that the key is made of.
    inputs: dict[str, JsonValue]
    template: str | None = None
    # "native", "tokenizers" or "another tool".
    encoder: str
    # Why the native encoder did not do it, and what that cost.
    slow_encoder: EncoderCost | None = None
    sources: tuple[SourceLedger, ...]
    splits: dict[str, SplitStatistics]

    def totals(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for source in self.sources:
            for name, value in source.model_dump(exclude={"name", "split", "unused_fields"}).items():
                counts[name] = counts.get(name, 0) + value
        return counts

    def sealed(self) -> bytes:
        """cache.json, with a digest of all that it says."""
        document = self.model_dump(mode="json")
        return files.json_bytes({**document, _SEAL: _digest(document)})


_SEAL = "digest"


def _digest(document: dict[str, JsonValue]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_description(folder: Path) -> Description | None:
    """What cache.json says; None where there is none, or of another format, or changed since it was written.
    The Arrow files are for `damage` to judge."""
    try:
        document = json.loads((folder / FILE).read_bytes())
        seal = document.pop(_SEAL)
        found = Description.model_validate_json(json.dumps(document))
    except (OSError, ValueError, ValidationError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    whole = found.format == FORMAT and seal == _digest(document) and found.key == folder.name
    return found if whole else None


def damage(folder: Path, description: Description) -> str | None:
    """What is wrong with the Arrow files, by their content: a size says nothing of it."""
    for name, split in description.splits.items():
        path = folder / name / DATA_FILE
        try:
            same = path.stat().st_size == split.bytes and files.sha256(path) == split.sha256
        except OSError:
            return f"{name}/{DATA_FILE} cannot be read"
        if not same:
            return f"{name}/{DATA_FILE} is not the file that was written"
    return None


_KEY = re.compile(r"[0-9a-f]{32}")
_OWN = {FILE, "spill.bin", "train", "validation"}
_OWN_IN_SPLIT = {DATA_FILE, "dataset_info.json", "state.json"}


def is_cache_folder(folder: Path) -> bool:
    """Whether nothing but a token cache, or a part of one, can have this name and these files."""
    if not _KEY.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    inside = {path.name: path for path in folder.iterdir()}
    splits = [path for name, path in inside.items() if name in ("train", "validation")]
    return inside.keys() <= _OWN and all(
        split.is_dir() and {path.name for path in split.iterdir()} <= _OWN_IN_SPLIT for split in splits
    )
