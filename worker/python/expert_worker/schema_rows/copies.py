"""Held-out rows without near copies of training rows, by the comparison that a run makes of its data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from expert_worker._native import compare
from expert_worker.evaluate.authoring.write import write_rows
from expert_worker.pretokenize.template import renderer
from expert_worker.processor import available_cores

from .turns import Row

# Nothing is rendered: rows are compared by their texts.
_NO_TEMPLATE = "{{ messages }}"


def without_copies(rows: Sequence[Row], trained: Sequence[Row]) -> list[Row]:
    """Of `rows`, those whose question and answer no trained turn resembles; nor does an earlier one of them.

    Compared as written and, because shown tables make all questions alike, by the question alone.
    """
    written = _copies([*_pairs(trained, alone=False)], [*_pairs(rows, alone=False)])
    alone = _copies([*_pairs(trained, alone=True)], [*_pairs(rows, alone=True)])
    return [row for place, row in enumerate(rows) if place not in written | alone]


def _pairs(rows: Sequence[Row], *, alone: bool) -> Iterator[Row]:
    """Each row, or each of its turns."""
    for row in rows:
        messages = row["messages"]
        if not alone:
            yield {"messages": messages}
            continue
        for asked, answered in zip(messages[1::2], messages[2::2], strict=True):
            yield {"prompt": asked["content"].splitlines()[-1], "completion": answered["content"]}


def _copies(trained: list[Row], rows: list[Row]) -> set[int]:
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / "trained.jsonl", Path(scratch) / "rows.jsonl"]
        for path, some in zip(paths, (trained, rows), strict=True):
            write_rows(path, some)
        sources = [(path.name, str(path)) for path in paths]
        found = compare(renderer(_NO_TEMPLATE, {}), [sources], available_cores(), lambda *_: True)
    return {line - 1 for (source, line), _ in found.repeats() if source == 1}
