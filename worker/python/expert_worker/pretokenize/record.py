"""cache.json: what a cache was made of, what became of the rows, and what the rows are like."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pydantic import JsonValue, ValidationError

from expert_worker.checkpoint import files
from expert_worker.results import CacheRecord, EncoderCost, RowCounts, SlowEncoder

FILE = "cache.json"
DATA_FILE = "data-00000-of-00001.arrow"
FORMAT = 8


def totals(record: CacheRecord, split: str = "train") -> RowCounts:
    """What became of the rows that were read for a split. Rows that `validation_split` holds out are read
    for training too; their tokens are not counted there. Rows that another tool tokenized have no sources."""
    counts = dict.fromkeys(RowCounts.model_fields, 0)
    sources = [source for source in record.sources if source.split == split]
    for source in sources:
        for name in counts:
            counts[name] += getattr(source, name)
    found = record.splits.get(split)
    if found is not None and not record.sources:
        counts["read"] = counts["used"] = found.rows
    if found is not None and (sources or not record.sources):
        counts["tokens"] = found.tokens + found.shared_tokens
        counts["supervised_tokens"] = found.supervised_tokens
    return RowCounts(**counts)


def slow_encoder(cost: EncoderCost) -> SlowEncoder:
    return SlowEncoder(**dict(cost), words=cost_in_words(cost))


def cost_in_words(cost: EncoderCost) -> str:
    if cost.times_slower is not None:
        return f"{cost.times_slower:.1f} times slower, measured on {cost.rows} rows"
    if cost.megabytes_per_second is not None:
        return (
            f"{cost.megabytes_per_second:.2f} MB of text per CPU second, measured on {cost.rows} rows; "
            "the fast encoder cannot encode them, so how much slower that is stays unknown"
        )
    return "how much slower is unknown: no row could be measured"


def sealed(record: CacheRecord) -> bytes:
    """cache.json, with a digest of all that it says."""
    document = record.as_json()
    return files.json_bytes({**document, _SEAL: _digest(document)})


_SEAL = "digest"


def _digest(document: dict[str, JsonValue]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_description(folder: Path) -> CacheRecord | None:
    """What cache.json says; None where there is none, or of another format, or changed since it was written.
    The Arrow files are for `damage` to judge."""
    try:
        document = json.loads((folder / FILE).read_bytes())
        seal = document.pop(_SEAL)
        found = CacheRecord.model_validate_json(json.dumps(document))
    except (OSError, ValueError, ValidationError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    whole = found.format == FORMAT and seal == _digest(document) and found.key == folder.name
    return found if whole else None


def damage(folder: Path, description: CacheRecord) -> str | None:
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
