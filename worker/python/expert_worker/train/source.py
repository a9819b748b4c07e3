"""Where the tokenized rows come from: the mapped cache, or workers that tokenize as training goes on."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train.data import Rows


@dataclass(frozen=True)
class Source:
    """`key` names the data by content; a resumed run must find the same one."""

    key: str
    train: Rows
    validation: Rows | None
    ledger: dict[str, int]


def open_source(plan: Plan, events: Events) -> Source:
    cache = importlib.import_module("expert_worker.pretokenize").ensure_cache(plan, events)
    events.applied("data", "token cache", "Loading pre-tokenized dataset from cache")
    loader = plan.machine.loader
    if loader.workers or loader.pin_memory or loader.prefetch_factor:
        events.applied(
            "dataloader_num_workers", 0, "Rows are mapped from the cache: no loader workers are needed"
        )
    return Source(cache.key, cache.train, _or_none(cache.validation), _ledger(cache))


def _or_none(rows: Any) -> Rows | None:
    return rows if rows is not None and len(rows) else None


def _ledger(cache: Any) -> dict[str, int]:
    found = getattr(cache, "ledger", None)
    counts = found() if callable(found) else found
    return {str(k): int(v) for k, v in dict(counts or {}).items() if isinstance(v, int)}
