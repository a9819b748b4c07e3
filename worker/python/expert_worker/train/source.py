"""The source of tokenized rows: the mapped cache, or a folder of this run that loader workers
read."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from expert_worker.errors import Storage
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import rows_folder
from expert_worker.train.data import Rows


@dataclass(frozen=True)
class Source:
    """`key` names the data by content; a resumed run must find the same one."""

    key: str
    train: Rows
    validation: Rows | None
    ledger: dict[str, int]
    # Why Hugging Face tokenizers encoded the rows, and what that cost.
    slow_encoder: dict[str, JsonValue] | None = None
    mapped: bool = True
    folder: rows_folder.RowsFolder | None = None

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()


def open_source(plan: Plan, events: Events) -> Source:
    rows_folder.remove_abandoned()
    if not plan.machine.loader.use_cache:
        return _for_this_run(plan, events)
    try:
        cache = _ensure_cache(plan, events)
    except Storage as refused:
        message = f"{refused.message}. The data is tokenized for this run alone."
        events.warning("cache-not-written", message, refused.hint)
        return _for_this_run(plan, events)
    events.applied("data", "token cache", "Loading pre-tokenized dataset from cache")
    if plan.machine.loader.workers:
        note = "Rows are mapped from the cache: no loader workers are needed"
        events.applied("dataloader_num_workers", 0, note)
    return Source(cache.key, cache.train, _or_none(cache.validation), _ledger(cache), _slow(cache))


def _for_this_run(plan: Plan, events: Events) -> Source:
    folder = rows_folder.create()
    paths = plan.machine.paths.model_copy(update={"cache": str(folder.path)})
    elsewhere = plan.model_copy(update={"machine": plan.machine.model_copy(update={"paths": paths})})
    try:
        cache = _ensure_cache(elsewhere, events)
    except BaseException:
        folder.close()
        raise
    events.applied("data", "tokenized for this run", "Rows tokenized for this run, read by loader workers")
    held_out = _or_none(cache.validation)
    return Source(cache.key, cache.train, held_out, _ledger(cache), _slow(cache), mapped=False, folder=folder)


def _ensure_cache(plan: Plan, events: Events) -> Any:
    return importlib.import_module("expert_worker.pretokenize").ensure_cache(plan, events)


def _or_none(rows: Any) -> Rows | None:
    return rows if rows is not None and len(rows) else None


def _ledger(cache: Any) -> dict[str, int]:
    found = getattr(cache, "ledger", None)
    counts = found() if callable(found) else found
    return {str(k): int(v) for k, v in dict(counts or {}).items() if isinstance(v, int)}


def _slow(cache: Any) -> dict[str, JsonValue] | None:
    found = getattr(getattr(cache, "description", None), "slow_encoder", None)
    return found.told() if found is not None else None
