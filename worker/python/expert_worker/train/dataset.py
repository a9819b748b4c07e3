"""Which tokenized rows there are and where they come from: the token cache, or a folder of this run alone."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from expert_worker.base import token_vectors
from expert_worker.errors import Storage
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize.foreign import is_foreign, refuse_beyond
from expert_worker.pretokenize.lost_rows import warn_of_lost_rows
from expert_worker.pretokenize.record import slow_encoder
from expert_worker.process.work_folder import WorkFolder, create_work_folder, remove_abandoned
from expert_worker.results import DuplicateRows, SlowEncoder, SplitStatistics

if TYPE_CHECKING:
    from expert_worker.pretokenize import Cache

_PREFIX = "expert-rows-"


class Rows(Protocol):
    """Tokenized rows. `batch` lays rows end to end: ids, labels, document boundaries, positions."""

    def __len__(self) -> int: ...

    def row_lengths(self) -> Sequence[int]:
        """Tokens of every row."""

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any, Any, Any]: ...


@dataclass(frozen=True)
class Dataset:
    """`key` names the data by content; a resumed run must find the same data."""

    key: str
    train: Rows
    validation: Rows | None
    # What became of the training rows.
    ledger: dict[str, int]
    # Why Hugging Face tokenizers encoded the rows, and what that cost.
    slow_encoder: SlowEncoder | None = None
    # Copies between training, validation and test rows.
    duplicates: tuple[DuplicateRows, ...] = ()
    # What the validation rows are like.
    held_out: SplitStatistics | None = None
    mapped: bool = True
    folder: WorkFolder | None = None

    def close(self) -> None:
        if self.folder is not None:
            self.folder.close()


def open_dataset(plan: Plan, events: Events) -> Dataset:
    remove_abandoned_rows()
    if not plan.machine.loader.use_cache:
        return for_this_run(plan, events)
    try:
        cache = _ensure_cache(plan, events, Path(plan.machine.paths.cache))
    except Storage as refused:
        message = f"{refused.message}. The data is tokenized for this run alone."
        events.warning("cache-not-written", message, refused.hint)
        return for_this_run(plan, events)
    events.applied("data", "token cache", "Loading pre-tokenized dataset from cache")
    _report_sharing(plan, cache, events)
    warn_of_lost_rows(plan, cache, events)
    if plan.machine.loader.workers:
        note = "Rows are mapped from the cache: no loader workers are needed"
        events.applied("dataloader_num_workers", 0, note)
    return _dataset(cache)


def open_shared(plan: Plan, key: str, events: Events) -> Dataset | None:
    """The token cache of this key, built by another process; None where this machine does not see it."""
    from expert_worker.pretokenize import find_cache

    cache = find_cache(plan, key, events)
    return _dataset(cache) if cache is not None else None


def for_this_run(plan: Plan, events: Events) -> Dataset:
    """Tokenized into a folder of this process alone."""
    folder = create_rows_folder()
    try:
        cache = _ensure_cache(plan, events, folder.path)
    except BaseException:
        folder.close()
        raise
    events.applied("data", "tokenized for this run", "Rows tokenized for this run")
    _report_sharing(plan, cache, events)
    warn_of_lost_rows(plan, cache, events)
    return _dataset(cache, folder)


def _dataset(cache: Cache, folder: WorkFolder | None = None) -> Dataset:
    slow = cache.description.slow_encoder
    return Dataset(
        cache.key,
        cache.train,
        cache.validation if cache.validation is not None and len(cache.validation) else None,
        cache.ledger(),
        slow_encoder(slow) if slow is not None else None,
        cache.description.duplicates.found if cache.description.duplicates is not None else (),
        cache.description.splits.get("validation"),
        mapped=folder is None,
        folder=folder,
    )


def _report_sharing(plan: Plan, cache: Cache, events: Events) -> None:
    if not plan.recipe.batch.share_prefixes:
        return
    train = cache.description.splits["train"]
    if train.shared_tokens:
        whole = train.tokens + train.shared_tokens
        told = f"Shared beginnings: {train.shared_tokens:,} of {whole:,} tokens are not repeated"
        events.applied("share_prefixes", train.shared_tokens, told)
        return
    events.applied("share_prefixes", 0)
    if plan.recipe.data.train_on == "all":
        reason = "with train_on: all every beginning is learned, and only unlearned tokens are shared"
        hint = "Set training.dataset.train_on to completions, or remove share_prefixes."
    else:
        reason = "no two rows that follow one another begin with the same 32 unlearned tokens"
        hint = "Put rows that begin alike one after the other in the file, or remove the setting."
    events.warning("nothing-shared", f"share_prefixes changes nothing: {reason}", hint)


def _ensure_cache(plan: Plan, events: Events, root: Path) -> Cache:
    from expert_worker.pretokenize import ensure_cache

    return ensure_cache(plan, events, root=root)


def longest(lengths: Sequence[int], count: int) -> list[int]:
    """The `count` longest rows, the longest first."""
    return heapq.nlargest(count, range(len(lengths)), key=lengths.__getitem__)


def check_ids(rows: Rows, tokenizer: Any, model: Any, *, key: str) -> None:
    """Rows are only searched where the tokenizer is larger than the base, or another tool made them."""
    if is_foreign(key):
        refuse_beyond(token_vectors.count(model), _largest(rows))
    elif token_vectors.has_spare_ids(model, tokenizer):
        token_vectors.check_largest(model, tokenizer, _largest(rows))


def _largest(rows: Rows) -> int:
    """Of all ids and labels."""
    parts = (part for at in range(len(rows)) for part in rows.batch([at])[:2])
    return max((int(torch.as_tensor(part).max()) for part in parts), default=0)


@dataclass(frozen=True)
class InMemory:
    """Rows of documents, each (ids, labels): for tests, and for data that is not in a file."""

    packed: list[list[tuple[list[int], list[int]]]]

    def __len__(self) -> int:
        return len(self.packed)

    def row_lengths(self) -> list[int]:
        return [sum(len(ids) for ids, _ in row) for row in self.packed]

    def batch(self, indices: Sequence[int]) -> tuple[Any, Any, Any, Any]:
        documents = [document for index in indices for document in self.packed[index]]
        sizes = [len(ids) for ids, _ in documents]
        bounds = torch.tensor([0, *sizes]).cumsum(0)
        positions = torch.cat([torch.arange(size) for size in sizes])
        return (
            torch.tensor([i for ids, _ in documents for i in ids]),
            torch.tensor([i for _, labels in documents for i in labels]),
            bounds,
            positions,
        )


def create_rows_folder() -> WorkFolder:
    """For rows that are tokenized for one run."""
    return create_work_folder(_PREFIX)


def remove_abandoned_rows() -> list[Path]:
    return remove_abandoned(sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")))
