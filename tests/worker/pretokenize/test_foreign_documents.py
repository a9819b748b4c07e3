"""Padding and packed documents of rows that another tool tokenized are read from its columns, or refused."""

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from expert_worker.errors import BadInput
from expert_worker.events import Events
from expert_worker.pretokenize import foreign
from expert_worker.pretokenize.foreign import foreign_cache

Row = dict[str, list[int]]

IDS = [10, 11, 12, 20, 21, 22]
LABELS = [-100, 11, 12, -100, 21, 22]
PADDED = {"input_ids": [2, 2, 10, 11, 12, 2], "labels": [-100, -100, -100, 11, 12, -100]}
READ: dict[str, tuple[Row, list[list[int]]]] = {
    "padding at both ends": (
        {**PADDED, "attention_mask": [0, 0, 1, 1, 1, 0]},
        [[10, 11, 12], [-100, 11, 12], [3]],
    ),
    "positions that count the padding": (
        {**PADDED, "attention_mask": [0, 0, 1, 1, 1, 0], "position_ids": [0, 1, 2, 3, 4, 5]},
        [[10, 11, 12], [-100, 11, 12], [3]],
    ),
    "positions that do not": (
        {**PADDED, "attention_mask": [0, 0, 1, 1, 1, 0], "position_ids": [1, 1, 0, 1, 2, 1]},
        [[10, 11, 12], [-100, 11, 12], [3]],
    ),
    "two documents by position": (
        {"input_ids": IDS, "labels": LABELS, "position_ids": [0, 1, 2, 0, 1, 2]},
        [IDS, LABELS, [3, 3]],
    ),
    "two documents by length": (
        {"input_ids": IDS, "labels": LABELS, "seq_lengths": [3, 3], "position_ids": [0, 1, 2, 3, 4, 5]},
        [IDS, LABELS, [3, 3]],
    ),
    "lengths that count the padding": (
        {**PADDED, "attention_mask": [0, 0, 1, 1, 1, 0], "seq_lengths": [4, 1, 1]},
        [[10, 11, 12], [-100, 11, 12], [2, 1]],
    ),
}
REFUSED: dict[str, tuple[Row, str]] = {
    "a hole": ({"attention_mask": [1, 1, 0, 1, 1, 1]}, "its attention_mask leaves out tokens between others"),
    "nothing": ({"attention_mask": [0] * 6}, "its attention_mask leaves out every token"),
    "numbers of documents": ({"attention_mask": [1, 1, 1, 2, 2, 2]}, "something else than 0 and 1"),
    "another length": ({"attention_mask": [1, 1]}, "it has 6 ids and, in attention_mask, 2 numbers"),
    "a gap": (
        {"position_ids": [0, 1, 2, 5, 6, 7]},
        "its position_ids are neither consecutive nor restart at 0",
    ),
    "a later beginning": ({"position_ids": [3, 4, 5, 6, 7, 8]}, "its position_ids do not begin at 0"),
    "documents that are not those of the lengths": (
        {"position_ids": [0, 1, 2, 0, 1, 2], "seq_lengths": [4, 2]},
        "its position_ids restart within a document of its seq_lengths",
    ),
}


def read(folder: Path, rows: list[Row]) -> list[list[list[int]]]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    Dataset.from_dict(columns).save_to_disk(str(folder / "cache"))
    cache = foreign_cache(folder / "cache", folder / "home", None, Events.in_memory()[0])
    assert cache is not None
    return [[part.tolist() for part in cache.train.row(at)] for at in range(len(cache.train))]


def plain(row: Row) -> Row:
    """A row with the same columns that has one document without padding."""
    full = {"attention_mask": [1] * 4, "position_ids": [0, 1, 2, 3], "seq_lengths": [4]}
    return {name: full.get(name, [5, 6, 7, 8]) for name in row}


@pytest.mark.parametrize("name", READ)
def test_documents_are_read_from_the_columns(tmp_path: Path, name: str) -> None:
    row, expected = READ[name]
    beside = [[5, 6, 7, 8], [5, 6, 7, 8], [4]]
    assert read(tmp_path, [plain(row), row, plain(row)]) == [beside, expected, beside]


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_lost_is_refused_with_its_row(tmp_path: Path, name: str) -> None:
    columns, reason = REFUSED[name]
    row = {"input_ids": IDS, "labels": [-100] * 6, **columns}
    with pytest.raises(BadInput, match=f"row 2 of .*: .*{reason}"):
        read(tmp_path, [plain(row), row, plain(row)])


def test_labels_of_padding_are_refused(tmp_path: Path) -> None:
    row = {**PADDED, "labels": PADDED["input_ids"], "attention_mask": [0, 0, 1, 1, 1, 0]}
    with pytest.raises(
        BadInput, match=r"row 1 of .*: it has labels at tokens that its attention_mask leaves"
    ):
        read(tmp_path, [row])


def test_many_rows_are_read_like_each_alone(tmp_path: Path) -> None:
    random.seed(5)
    rows: list[Row] = []
    expected: list[Any] = []
    for _ in range(3000):
        lengths = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
        before, after, size = random.randint(0, 2), random.randint(0, 2), sum(lengths)
        ids = [random.randint(3, 900) for _ in range(size)]
        rows.append(
            {
                "input_ids": [0] * before + ids + [0] * after,
                "labels": [-100] * before + ids + [-100] * after,
                "attention_mask": [0] * before + [1] * size + [0] * after,
                "position_ids": [1] * before + [at for n in lengths for at in range(n)] + [1] * after,
            }
        )
        expected.append([ids, ids, lengths])
    assert read(tmp_path, rows) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_two_processes_that_need_the_same_rows_copy_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"input_ids": IDS, "labels": LABELS}
    Dataset.from_list([row] * 3).save_to_disk(str(tmp_path / "cache"))
    copy, both, copied = foreign._copy, threading.Barrier(2), []

    def slow(*given: Any) -> None:
        copied.append(given)
        # Each has a moment to begin beside the other one.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        copy(*given)

    def use(_: int) -> list[list[list[int]]]:
        cache = foreign_cache(tmp_path / "cache", tmp_path / "home", None, Events.in_memory()[0])
        assert cache is not None
        return [[part.tolist() for part in cache.train.row(at)] for at in range(len(cache.train))]

    monkeypatch.setattr(foreign, "_copy", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(use, range(2)))
    assert found == [[[IDS, LABELS, [6]]] * 3] * 2
    assert len(copied) == 1
