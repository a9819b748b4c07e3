"""The documents of rows that another tool tokenized, by the columns that say which tokens belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

MASK, POSITIONS, LENGTHS = "attention_mask", "position_ids", "seq_lengths"
_IGNORED = -100

Numbers = NDArray[Any]


class RowFault(Exception):
    """What is wrong with a row of a batch, counted from 0."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row, self.reason = row, reason


def documents(columns: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Ids, labels and lengths of the documents, without the padding at both ends of a row. A RowFault where
    that would lose something. All columns are lists of int32 without nulls: one number for each token, and
    `seq_lengths` that add up to them."""
    import pyarrow as pa

    flat = {name: column.flatten().to_numpy(zero_copy_only=False) for name, column in columns.items()}
    counts = columns["input_ids"].value_lengths().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    firsts, ends = offsets[:-1], offsets[1:]
    if MASK in flat:
        firsts, ends = _unmasked(flat[MASK], flat["labels"], offsets)
    kept = np.zeros(offsets[-1] + 1, np.int8)
    kept[firsts] += 1
    kept[ends] -= 1
    kept = np.cumsum(kept, dtype=np.int8)[:-1].astype(bool)
    begins = np.zeros(offsets[-1], bool)
    begins[firsts] = True
    if LENGTHS in flat:
        begins[np.cumsum(flat[LENGTHS])[:-1]] = True
    if POSITIONS in flat:
        restarts = _restarts(flat[POSITIONS], firsts, kept, offsets)
        if LENGTHS in flat:
            _refuse(
                restarts & ~begins, offsets, "its position_ids restart within a document of its seq_lengths"
            )
        begins |= restarts
    begins = begins[kept]
    places = np.flatnonzero(begins)
    row_ends = np.concatenate([[0], np.cumsum(ends - firsts)])

    def lists(values: Numbers, borders: Numbers) -> Any:
        return pa.ListArray.from_arrays(pa.array(borders, pa.int32()), pa.array(values, pa.int32()))

    return (
        lists(flat["input_ids"][kept], row_ends),
        lists(flat["labels"][kept], row_ends),
        lists(np.diff(places, append=len(begins)), np.searchsorted(places, row_ends)),
    )


def _unmasked(mask: Numbers, labels: Numbers, offsets: Numbers) -> tuple[Numbers, Numbers]:
    """Of each row the first token that its mask has and the one behind the last."""
    _refuse((mask != 0) & (mask != 1), offsets, "its attention_mask holds something else than 0 and 1")
    _refuse(
        (mask == 0) & (labels != _IGNORED),
        offsets,
        "it has labels at tokens that its attention_mask leaves out",
    )
    before = np.concatenate([[0], np.cumsum(mask)])[offsets]
    _refuse_rows(np.diff(before) == 0, "its attention_mask leaves out every token")
    places = np.flatnonzero(mask)
    firsts, ends = places[before[:-1]], places[before[1:] - 1] + 1
    _refuse_rows(ends - firsts != np.diff(before), "its attention_mask leaves out tokens between others")
    return firsts, ends


def _restarts(positions: Numbers, firsts: Numbers, kept: Numbers, offsets: Numbers) -> Numbers:
    """Tokens within a row whose position is 0 again."""
    # Where padding is cut in front, positions may count it.
    begin = positions[firsts]
    _refuse_rows((begin != 0) & (begin != firsts - offsets[:-1]), "its position_ids do not begin at 0")
    within = kept.copy()
    within[firsts] = False
    follows = np.diff(positions, prepend=0) == 1
    _refuse(
        within & ~follows & (positions != 0),
        offsets,
        "its position_ids are neither consecutive nor restart at 0",
    )
    restarts: Numbers = within & (positions == 0)
    return restarts


def _refuse(faults: Numbers, offsets: Numbers, reason: str) -> None:
    """The row of the first token that is at fault."""
    if faults.any():
        raise RowFault(int(np.searchsorted(offsets, faults.argmax(), side="right")) - 1, reason)


def _refuse_rows(faults: Numbers, reason: str) -> None:
    if faults.any():
        raise RowFault(int(faults.argmax()), reason)
