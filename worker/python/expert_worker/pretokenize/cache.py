"""A finished cache: its description, and its memory-mapped rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

from expert_worker._native import MappedRows
from expert_worker.pretokenize.record import DATA_FILE, totals
from expert_worker.process.builder_lock import hold_folder
from expert_worker.results import CacheRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int32]


class Rows:
    """The rows of one split. Reading copies nothing but what `batch` lays end to end. As long as this object
    lives, `clean` leaves the cache there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._native = MappedRows(str(path))
        if (held := hold_folder(path.parent.parent)) is not None:
            finalize(self, os.close, held)

    def __len__(self) -> int:
        return len(self._native)

    def row(self, index: int) -> tuple[Numbers, Numbers, Numbers]:
        """Views of the row's ids, labels (-100 where not learned) and document lengths."""
        ids, labels, lengths = self._native.place(index)
        return self._view(ids), self._view(labels), self._view(lengths)

    def batch(self, indices: Sequence[int]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Rows laid end to end: ids, labels, document boundaries (from 0) and positions within documents."""
        import numpy as np

        wanted = [int(index) for index in indices]
        tokens, documents = self._native.measure(wanted)
        arrays = np.empty(3 * tokens + documents + 1, dtype=np.int32)
        ids, labels, positions = (arrays[part * tokens : (part + 1) * tokens] for part in range(3))
        boundaries = arrays[3 * tokens :]
        self._native.fill(wanted, ids, labels, positions, boundaries)
        return ids, labels, boundaries, positions

    def row_lengths(self) -> list[int]:
        """Tokens of every row."""
        return self._native.lengths()

    @cached_property
    def _bytes(self) -> Any:
        import numpy as np

        return np.memmap(self.path, dtype=np.uint8, mode="r").view(np.ndarray)

    def _view(self, place: tuple[int, int]) -> Numbers:
        import numpy as np

        view: Numbers = self._bytes[place[0] : place[1]].view(np.int32)
        return view


@dataclass(frozen=True)
class Cache:
    """A token cache. `existed` says whether it was built before."""

    key: str
    folder: Path
    description: CacheRecord
    train: Rows
    validation: Rows | None
    existed: bool

    @property
    def template(self) -> str | None:
        """The Jinja text that the rows were rendered with."""
        return self.description.template

    def ledger(self, split: str = "train") -> dict[str, int]:
        """What became of the rows that were read for a split."""
        return dict(totals(self.description, split))


def open_cache(folder: Path, description: CacheRecord, *, existed: bool) -> Cache:
    held_out = folder / "validation" / DATA_FILE
    return Cache(
        key=description.key,
        folder=folder,
        description=description,
        train=Rows(folder / "train" / DATA_FILE),
        validation=Rows(held_out) if held_out.is_file() else None,
        existed=existed,
    )
