"""A token cache of one JSONL file, in a folder that is thrown away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plans import example_plan

from expert_worker.events import Events
from expert_worker.pretokenize import Cache, ensure_cache


def built(
    folder: Path, data: Path, base: Path, capacity: int, changes: dict[str, Any] | None = None
) -> Cache:
    plan = {
        "recipe.data.train": [{"name": "rows", "format": "jsonl", "weight": 1.0, "task": None}],
        "recipe.data.validation": [],
        "recipe.template": {"kind": "chatml", "source": None},
        "recipe.batch.max_seq_length": capacity,
        "machine.paths.data": {"rows": str(data)},
        "machine.paths.base": str(base),
        "machine.paths.home": str(folder / "home"),
        "machine.paths.cache": str(folder / "cache"),
        **(changes or {}),
    }
    return ensure_cache(example_plan(folder, plan), Events.in_memory()[0])
