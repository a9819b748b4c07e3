"""Test rows are read from every kind of file that training rows are read from."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
from plans import example_plan
from pyarrow import parquet

from expert_worker.errors import BadInput, Missing
from expert_worker.evaluate import rows
from expert_worker.evaluate.rows import drawn, places_of, rows_of, spread
from expert_worker.evaluate.scored_rows import files_of
from expert_worker.plan import Source
from expert_worker.pretokenize.broken_rows import BrokenRows

ROWS = [{"prompt": f"Q{i}", "completion": f"A{i}"} for i in range(4)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
FILES = {
    "test.jsonl": LINES,
    "test.jsonl.gz": gzip.compress(LINES),
    "test.jsonl.zst": pa.compress(LINES, codec="zstd", asbytes=True),
    "utf16.jsonl": LINES.decode().encode("utf-16"),
    "marked.jsonl": b"\xef\xbb\xbf" + LINES,
    "test.json": json.dumps(ROWS, indent=1).encode(),
    "test.csv": b"prompt;completion\n" + b"".join(b"Q%d;A%d\n" % (i, i) for i in range(4)),
}


@pytest.mark.parametrize("name", FILES)
def test_the_rows_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    kind = {"csv": "csv", "json": "json"}.get(name.rsplit(".", 1)[1], "jsonl")
    changes = {
        "recipe.data.test": [{"name": name, "format": kind, "weight": 1.0, "task": None}],
        "machine.paths.data": {name: str(tmp_path / name)},
    }
    plan = example_plan(tmp_path, changes)
    data, files = plan.recipe.data, plan.machine.paths.data
    assert [row["completion"] for row in rows_of(data.test, {}, files)] == ["A0", "A1", "A2", "A3"]
    assert len(rows_of(data.test, {}, files, 2)) == 2
    (tmp_path / name).write_bytes(FILES[name][:-9] + b"\xff\xff")
    with pytest.raises(BadInput):
        rows_of(data.test, {}, files)


BROKEN = {
    "test.jsonl": (
        LINES.replace(b'"Q1"', b'"Q1').replace(b"{", b"", 1),
        "2 rows are broken:\ntest.jsonl:1: not valid JSON: trailing characters \\(column 9\\)\n"
        "test.jsonl:2: not valid JSON: expected `,` or `}`",
    ),
    "list.jsonl": (
        b"[1]\n\xff\n" + LINES.partition(b"\n")[2],
        "2 rows are broken:\nlist.jsonl:1: a row must be an object\n"
        "list.jsonl:2: byte 1 of the row is not UTF-8",
    ),
    "long.jsonl": (b'{"prompt": "' + b"x" * 200 + b'"}\n' + LINES, "long.jsonl:1: this line is longer"),
    "test.csv": (b"prompt;completion\nQ;A;more\nQ0;A0\n", "test.csv, row 1: this row cannot be read: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rows_behind_one_that_cannot_be_read_are_read_where_that_is_skipped(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, reason = BROKEN[name]
    monkeypatch.setattr(rows, "LONGEST_LINE", 100)
    (tmp_path / name).write_bytes(content)
    kind: Any = "csv" if name.endswith(".csv") else "jsonl"
    read = [Source(name=name, format=kind, weight=1.0, task=None)], {}, {name: str(tmp_path / name)}
    with pytest.raises(BadInput, match=reason):
        rows_of(*read)
    broken = BrokenRows()
    found = [row["completion"] for row in rows_of(*read, broken=broken)]
    wanted = {"test.jsonl": ["A2", "A3"], "list.jsonl": ["A1", "A2", "A3"], "test.csv": ["A0"]}
    assert found == wanted.get(name, ["A0", "A1", "A2", "A3"])
    lines = content.count(b"\n") - name.endswith(".csv")
    assert broken.total == lines - len(found)
    places = places_of(*read, broken=BrokenRows())
    assert len(places) == len(found) and places[0].endswith("3" if name.endswith("t.jsonl") else "2")


LIST = json.dumps(ROWS[:3]).encode()
CUT_OFF = "row 3: the file ends before its last value does"
BAD_LISTS = {
    "latin.json": (
        LIST.replace(b"A1", b"\xfc"),
        "latin.json, row 2: byte .* of the row is not UTF-8",
        ["A0", "A2"],
    ),
    "latin.jsonl.gz": (
        gzip.compress(LINES.replace(b"A1", b"\xfc")),
        "latin.jsonl.gz:2: byte .* of the row is not UTF-8",
        ["A0", "A2", "A3"],
    ),
    "whole rows.json": (LIST[:-1], CUT_OFF, ["A0", "A1"]),
    "a comma.json": (LIST[:-1] + b",", CUT_OFF, ["A0", "A1"]),
    "half a row.json": (LIST[:-9], CUT_OFF, ["A0", "A1"]),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_rows_of_another_encoding_and_lists_without_an_end_are_refused(tmp_path: Path, name: str) -> None:
    content, reason, others = BAD_LISTS[name]
    (tmp_path / name).write_bytes(content)
    kind: Any = "json" if name.endswith(".json") else "jsonl"
    read = [Source(name=name, format=kind, weight=1.0, task=None)], {}, {name: str(tmp_path / name)}
    with pytest.raises(BadInput, match=reason) as caught:
        rows_of(*read)
    assert ("iconv -f WINDOWS-1252" in str(caught.value.hint)) == (name == "latin.json")
    broken = BrokenRows()
    assert [row["completion"] for row in rows_of(*read, broken=broken)] == others
    assert broken.total == 1


def test_a_row_is_named_with_its_line_behind_a_byte_order_mark(tmp_path: Path) -> None:
    lines = LINES.replace(b"\n", b"\n\n")
    for name, content in {"plain.jsonl": lines, "marked.jsonl": b"\xef\xbb\xbf" + lines}.items():
        (tmp_path / name).write_bytes(content)
        read = [Source(name=name, format="jsonl", weight=1.0, task=None)], {}, {name: str(tmp_path / name)}
        assert [place.rsplit(":", 1)[1] for place in places_of(*read)] == ["1", "3", "5", "7"]
        (tmp_path / name).write_bytes(content + b"{\n")
        with pytest.raises(BadInput, match=f"{name}:9: "):
            rows_of(*read)


def test_a_test_set_of_the_hub_has_no_keys_of_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub")
    folder = tmp_path / "owner"
    folder.mkdir()
    rows = [{"prompt": "Q", "completion": {"a": 1}}, {"prompt": "Q", "completion": {"b": [None]}}]
    datasets.Dataset.from_list(rows).to_parquet(str(folder / "test.parquet"))
    # A folder stands in for a name of the Hub: `datasets` loads either by the same call.
    source = Source(name=f"{folder}::test", format="huggingface", weight=1.0, task=None)
    assert [row["completion"] for row in rows_of([source], {}, {})] == ['{"a":1}', '{"b":[null]}']


def test_a_data_set_of_the_hub_is_read_at_the_commit_that_the_cache_points_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, prepared = tmp_path / "hub", tmp_path / "datasets"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(hub))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", prepared)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    for time, commit in enumerate(["a" * 40, "b" * 40]):
        folder = prepared / "some___rows" / "default" / "0.0.0" / commit
        datasets.Dataset.from_list([{"prompt": "Q", "completion": commit}]).save_to_disk(
            str(tmp_path / commit)
        )
        folder.mkdir(parents=True)
        (tmp_path / commit / "data-00000-of-00001.arrow").rename(folder / "rows-train.arrow")
        split = {"name": "train", "num_examples": 1, "dataset_name": "rows"}
        about = {"config_name": "default", "splits": {"train": split}}
        (folder / "dataset_info.json").write_text(json.dumps(about))
        os.utime(folder, (time, time))
    main = hub / "datasets--some--rows" / "refs" / "main"
    main.parent.mkdir(parents=True)
    asked = []
    load = datasets.load_dataset

    def recorded(*names: Any, revision: str | None, **options: Any) -> Any:
        asked.append(revision)
        return load(*names, revision=revision, **options)

    monkeypatch.setattr(datasets, "load_dataset", recorded)
    source = Source(name="some/rows::train", format="huggingface", weight=1.0, task=None)
    assert [row["completion"] for row in rows_of([source], {}, {})] == ["b" * 40]
    main.write_text("b" * 40)
    assert [row["completion"] for row in rows_of([source], {}, {})] == ["b" * 40]
    assert [file.revision for file in files_of([source], {}, 1)] == ["b" * 40]
    main.write_text("a" * 40)
    with pytest.raises(Missing, match=r"reads commit bbbbbbbbbbbb of some/rows::train.* commit aaaaaaaaaaaa"):
        rows_of([source], {}, {})
    assert asked == [None, "b" * 40, "b" * 40, "a" * 40]


def test_bytes_are_a_fault_only_where_a_row_is_read_from_them(tmp_path: Path) -> None:
    table = pa.table({"prompt": ["Q"], "completion": ["A"], "img": [b"\xff"]})
    parquet.write_table(table, tmp_path / "test.parquet")
    source = Source(name="test.parquet", format="parquet", weight=1.0, task=None)
    files = {"test.parquet": str(tmp_path / "test.parquet")}
    [row] = rows_of([source], {}, files)
    assert row["completion"] == "A"
    with pytest.raises(BadInput, match='row 1: the column "img": byte 1 is not UTF-8'):
        rows_of([source], {"prompt": "prompt", "completion": "img"}, files)


def test_what_the_library_leaves_beside_a_saved_test_set_does_not_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    datasets.Dataset.from_list(ROWS).save_to_disk(str(folder))
    source = Source(name="saved", format="arrow", weight=1.0, task=None)
    files = {"saved": str(folder)}
    before = files_of([source], files, 1)
    datasets.load_from_disk(str(folder)).map(lambda row: {"n": len(row)})
    assert list(folder.glob("cache-*.arrow"))
    assert files_of([source], files, 1) == before
    (folder / "data-00001-of-00001.arrow").write_bytes(b"x")
    assert files_of([source], files, 1) != before


NAN = float("nan")
PAIR = pa.struct([("x", pa.float32()), ("y", pa.float64())])
CALL = pa.struct([("name", pa.string()), ("a", pa.int64()), ("b", pa.struct([("c", pa.int64())]))])
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string()), ("tool_calls", pa.list_(CALL))])
COLUMNS = pa.table(
    {
        "question": ["half?", "tenth?", "none?"],
        "answer": pa.array([0.5, 0.1, 1e-7], pa.float32()),
        "score": [0.25, NAN, float("-inf")],
        "nested": pa.array([[{"x": 0.1, "y": NAN}], [], None], pa.list_(PAIR)),
        "short": pa.array([np.float16(0.5), np.float16(NAN), None], pa.float16()),
        "day": pa.array([0, 1, 2], pa.timestamp("us")),
        "tools": pa.array([[{"name": "f", "a": 1}, {"name": "g", "b": {"c": None}}]] * 3, pa.list_(CALL)),
        "history": pa.array([[{"role": "user"}, {"tool_calls": [{"a": 1}]}]] * 3, pa.list_(MESSAGE)),
    }
)  # fmt: skip
TOOLS = [{"name": "f", "a": 1}, {"name": "g", "b": {}}]
HISTORY = [{"role": "user"}, {"tool_calls": [{"a": 1}]}]


@pytest.mark.parametrize("kind", ["parquet", "huggingface"])
def test_columns_are_read_as_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = tmp_path / "test.parquet"
    parquet.write_table(COLUMNS, path)
    saved = datasets.Dataset(COLUMNS)
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: saved)
    name, files = ("test.parquet", {"test.parquet": str(path)}) if kind == "parquet" else ("a/b::test", {})
    source = Source(name=name, format=kind, weight=1.0, task=None)
    found: list[Any] = rows_of([source], {}, files)
    assert [row["completion"] for row in found] == ["0.5", "0.1", "1e-7"]
    assert [row["score"] for row in found] == [0.25, None, None]
    assert [row["nested"] for row in found] == [[{"x": 0.1, "y": None}], [], None]
    assert [row["short"] for row in found] == [0.5, None, None]
    assert found[1]["day"] == "1970-01-01 00:00:00.000001"
    assert found[0]["tools"] == TOOLS and found[0]["history"] == HISTORY


def test_rows_that_take_turns_are_drawn_of_every_kind() -> None:
    kinds = ["a", "b", "c", "d"]
    rows = [kinds[at % 4] for at in range(40)]
    found = drawn(rows, 10)
    assert len(found) == 10 and set(found) == set(kinds)
    assert set(spread(rows, 10)) == {"a"}
    # Always the same ones, in their order and of every part.
    places = drawn(range(400), 20)
    assert places == drawn(range(400), 20)
    assert [place // 20 for place in places] == list(range(20))
    assert (drawn([], 3), drawn([1, 2], 5)) == ([], [1, 2])


def test_a_pointer_of_git_lfs_is_one_broken_row(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    read = (
        [Source(name="test.jsonl", format="jsonl", weight=1.0, task=None)],
        {},
        {"test.jsonl": str(tmp_path / "test.jsonl")},
    )
    with pytest.raises(BadInput, match="is a Git LFS pointer, not the data") as caught:
        rows_of(*read)
    assert caught.value.code == "lfs-pointer" and "git lfs pull" in str(caught.value.hint)
    broken = BrokenRows()
    assert rows_of(*read, broken=broken) == [] and broken.total == 1
