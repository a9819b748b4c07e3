"""Writes data and builds caches of it, for tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plans import example_plan

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize import Cache, ensure_cache


class Workshop:
    """Writes data and builds caches of it."""

    def __init__(self, folder: Path, base: Path, home: Path) -> None:
        self.folder, self.base, self.home = folder, base, home
        self.said: list[Any] = []

    def jsonl(self, rows: Iterable[Any], name: str = "train.jsonl") -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    def plan(self, path: Path, changes: dict[str, Any] | None = None) -> Plan:
        kind = {".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".parquet": "parquet"}.get(
            path.suffix, "arrow"
        )
        source = {"name": path.name, "format": kind, "weight": 1.0, "task": None}
        standard = {
            "recipe.data.train": [source],
            "recipe.data.validation": [],
            "recipe.template": {"kind": "tokenizer", "source": None},
            "machine.threads.pretokenize": 1,
            "machine.paths.data": {path.name: str(path)},
            "machine.paths.base": str(self.base),
            "machine.paths.home": str(self.home),
            "machine.paths.cache": str(self.folder / "cache"),
        }
        return example_plan(self.folder, {**standard, **(changes or {})})

    def build(self, path: Path, changes: dict[str, Any] | None = None) -> Cache:
        events, memory = Events.in_memory("pretokenize")
        try:
            return ensure_cache(self.plan(path, changes), events)
        finally:
            self.said = [event.body for event in memory.events]
