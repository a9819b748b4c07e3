"""What a base writes, cached by everything that it depends on, so that another adapter does not generate it
again. Verdicts are cached only of a model that judges (`model_verdicts.py`): scorers change, and judging
again is cheap.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.base.locate import weight_files
from expert_worker.checkpoint.files import replace_shared
from expert_worker.run_record.digests import KnownDigests

VERSION = 5
_BESIDE_WEIGHTS = frozenset({".bin", ".gguf", ".json", ".jinja", ".model", ".txt"})


def digest(parts: Mapping[str, Any]) -> str:
    text = json.dumps({"version": VERSION, **parts}, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint(folder: Path, home: Path) -> str:
    """Identifies a base by every byte of its files, except second copies of its weights."""
    known = KnownDigests(home)
    beside = {path for path in folder.glob("*") if path.suffix in _BESIDE_WEIGHTS}
    found = [path for path in sorted({*weight_files(folder), *beside}) if path.is_file()]
    lines = (f"{known.of(path)}  {path.name}\n" for path in found)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class CachedScores:
    """One JSON file per digest in the worker's home; a damaged one is ignored."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "base-scores"

    def load(self, key: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.pop("key", None) == key else None

    def save(self, key: str, scores: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"key": key, **scores}, sort_keys=True)
        replace_shared(self.folder / f"{key}.json", content.encode())
