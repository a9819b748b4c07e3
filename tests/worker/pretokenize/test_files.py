"""Files as people have them: each is read, or refused with what makes it work."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pretokenize.test_data import PLAIN, texts, turn
from pretokenize.workshop import Workshop
from pyarrow import parquet

from expert_worker._native import rows_of_columns
from expert_worker.errors import BadInput
from expert_worker.plan import Source
from expert_worker.pretokenize import unpack
from expert_worker.pretokenize.preview import rows_as_json
from expert_worker.pretokenize.sources import open_source

ROWS = [{"prompt": f"Qü{i}", "completion": f'A, "{i}"\nline; [x] {{'} for i in range(7)]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)


def csv_of(delimiter: str) -> str:
    quoted = ['"' + row["completion"].replace('"', '""') + '"' for row in ROWS]
    rows = [f"{row['prompt']}{delimiter}{text}" for row, text in zip(ROWS, quoted, strict=True)]
    return "\r\n".join([f"prompt{delimiter}completion", *rows]) + "\r\n"


def zipped(name: str, content: bytes, *others: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for other in ("__MACOSX/._x", *others):
            archive.writestr(other, b"x")
        archive.writestr(name, content)
    return out.getvalue()


def zstandard(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def columns() -> dict[str, list[Any]]:
    return {key: [row[key] for row in ROWS] for key in ROWS[0]}


FILES: dict[str, Callable[[], bytes]] = {
    "rows.jsonl.gz": lambda: gzip.compress(LINES.encode()),
    "rows.csv.gz": lambda: gzip.compress(csv_of(",").encode()),
    "rows.json.gz": lambda: gzip.compress(json.dumps(ROWS).encode()),
    "rows.jsonl.zst": lambda: zstandard(LINES.encode()),
    "rows.zip": lambda: zipped("data/rows.jsonl", LINES.encode()),
    "table.zip": lambda: zipped("rows.csv", csv_of(";").encode()),
    "rows.tsv": lambda: csv_of("\t").encode(),
    "semicolons.csv": lambda: csv_of(";").encode(),
    "excel.csv": lambda: csv_of(";").encode("utf-8-sig"),
    "utf16.jsonl": lambda: LINES.encode("utf-16"),
    "utf16-unmarked.jsonl": lambda: LINES.encode("utf-16-le"),
    "utf16.csv": lambda: csv_of("\t").encode("utf-16"),
    "indented.jsonl": lambda: "\n".join(json.dumps(row, indent=2) for row in ROWS).encode(),
    "indented.json": lambda: json.dumps(ROWS, indent=4).encode(),
    "list.jsonl": lambda: json.dumps(ROWS).encode(),
    "lines.json": LINES.encode,
    "nested.json": lambda: json.dumps({"version": 1, "data": ROWS}, indent=1).encode(),
    "columns.json": lambda: json.dumps(columns()).encode(),
    "pandas.json": lambda: json.dumps(
        {key: {str(i): value for i, value in enumerate(column)} for key, column in columns().items()}
    ).encode(),
    "pandas-index.json": lambda: json.dumps({str(i): row for i, row in enumerate(ROWS)}).encode(),
    "pandas-split.json": lambda: json.dumps(
        {"columns": list(ROWS[0]), "index": list(range(7)), "data": [list(row.values()) for row in ROWS]}
    ).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_same_rows(workshop: Workshop, name: str) -> None:
    path = workshop.folder / name
    content = FILES[name]()
    path.write_bytes(content)
    cache = workshop.build(path, {**PLAIN, "recipe.data.train": [source(name)]})
    expected = [turn(row["prompt"], row["completion"]) for row in ROWS]
    assert [text for text, _ in texts(workshop, cache)] == expected
    assert not list(cache.folder.glob("unpacked*"))
    assert path.read_bytes() == content


def source(name: str) -> dict[str, Any]:
    """As the plan names a file whose ending does not say more."""
    kind = "csv" if "csv" in name or "tsv" in name else "json" if name.endswith(".json") else "jsonl"
    return {"name": name, "format": kind, "weight": 1.0, "task": None}


def test_one_row_that_is_the_whole_file(workshop: Workshop) -> None:
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    for row in (
        {"messages": turns},
        {"prompt": turns[:1], "completion": turns[1:]},
        {"prompt": "Q", "answer": "A"},
    ):
        path = workshop.folder / "train.jsonl"
        path.write_text(json.dumps(row, indent=1))
        assert [text for text, _ in texts(workshop, workshop.build(path, PLAIN))] == [turn("Q", "A")]


@pytest.mark.parametrize("layout", ["list", "indented list", "lines"])
def test_the_native_reader_reads_lists_of_json_itself(
    layout: str, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's json would hold the whole file in memory."""
    lists = {"list": json.dumps(ROWS), "indented list": json.dumps(ROWS, indent=2), "lines": LINES}
    path = workshop.folder / "train.json"
    path.write_text(lists[layout])

    def refuse(path: Path, name: str) -> None:
        raise AssertionError(f"{name} went through Python")

    monkeypatch.setattr("expert_worker.pretokenize.sources.rows_of_object", refuse)
    cache = workshop.build(path, {**PLAIN, "recipe.data.train": [source("train.json")]})
    assert [text for text, _ in texts(workshop, cache)] == [
        turn(row["prompt"], row["completion"]) for row in ROWS
    ]
    path.write_text(json.dumps({"rows": ROWS}))
    with pytest.raises(AssertionError, match="went through Python"):
        workshop.build(path, {**PLAIN, "recipe.data.train": [source("train.json")]})


def refused(workshop: Workshop, name: str, content: bytes) -> BadInput:
    path = workshop.folder / name
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        workshop.build(path, {**PLAIN, "recipe.data.train": [source(name)]})
    assert not list((workshop.folder / "cache").glob("*partial*/*"))
    return caught.value


def run(command: str, folder: Path) -> None:
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True, timeout=60)


def test_latin_1_is_named_with_the_command_that_converts_it(workshop: Workshop) -> None:
    error = refused(workshop, "train.jsonl", LINES.encode("latin-1"))
    assert "train.jsonl:1: byte 14 of the row is not UTF-8 (7 rows: 1, 2, 3, 4, 5, 6, 7)" in error.message
    assert error.hint and "Latin-1" in error.hint
    run(error.hint.split("folder: ")[1], workshop.folder)
    cache = workshop.build(workshop.folder / "train-utf8.jsonl", PLAIN)
    assert texts(workshop, cache)[0][0] == turn(ROWS[0]["prompt"], ROWS[0]["completion"])


def test_several_lists_in_a_file_ask_for_one(workshop: Workshop) -> None:
    error = refused(workshop, "train.json", json.dumps({"train": ROWS, "test": ROWS[:1]}).encode())
    assert "several lists of rows: test, train" in error.message
    assert error.hint and "jq -c '.[\"train\"][]' train.json > train-train.jsonl" in error.hint


def test_an_archive_of_several_files_is_named(workshop: Workshop) -> None:
    error = refused(workshop, "rows.zip", zipped("a.jsonl", LINES.encode(), "b.jsonl"))
    assert "rows.zip is a zip archive of 2 files" in error.message
    assert error.hint and "unzip rows.zip -d rows" in error.hint
    error = refused(workshop, "my rows.zip", zipped("a.jsonl", LINES.encode(), "b.jsonl"))
    assert error.hint and "unzip 'my rows.zip' -d 'my rows'" in error.hint
    error = refused(workshop, "book.zip", zipped("xl/workbook.xml", b"x", "[Content_Types].xml"))
    assert error.hint and "Excel" in error.hint


@pytest.mark.parametrize(
    "name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.zip", "utf16.jsonl", "utf16.jsonl.gz", "rows.json.gz"]
)
def test_the_first_rows_need_the_first_bytes_only(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(unpack, "_CHUNK", 256)
    monkeypatch.setattr(unpack.Head, "__init__", lambda self: vars(self).update(most=512, was_cut=False))
    copies: list[int] = []
    whole = unpack._copied

    def counted(*given: Any) -> Path:
        copy = whole(*given)
        copies.append(copy.stat().st_size)
        return copy

    monkeypatch.setattr(unpack, "_copied", counted)
    rows = [{"text": f"line {number}"} for number in range(200)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    packed = {
        "rows.jsonl.gz": gzip.compress(lines.encode()),
        "rows.jsonl.zst": zstandard(lines.encode()),
        "rows.zip": zipped("rows.jsonl", lines.encode()),
        "utf16.jsonl": lines.encode("utf-16"),
        "utf16.jsonl.gz": gzip.compress(lines.encode("utf-16")),
        "rows.json.gz": gzip.compress(json.dumps(rows).encode()),
    }
    (workshop.folder / name).write_bytes(packed[name])
    made, places = Source.model_validate(source(name)), {name: str(workshop.folder / name)}
    assert [json.loads(row) for row in itertools.islice(rows_as_json(made, places, 99), 5)] == rows[:5]
    if name not in ("utf16.jsonl.gz", "rows.json.gz"):
        assert sum(copies) < 1024, "one copy of the head"
    assert [json.loads(row) for row in rows_as_json(made, places, 150)] == rows[:150]
    assert [json.loads(row) for row in rows_as_json(made, places, 999)] == rows


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.zip"])
def test_a_file_that_becomes_huge_is_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(unpack, "SUSPECT_BYTES", 4 << 20)
    content = b" " * (6 << 20)
    pack = {"gz": gzip.compress, "st": zstandard, "ip": lambda it: zipped("rows.jsonl", it)}[name[-2:]]
    packed = pack(content)
    assert len(content) / len(packed) > unpack.SUSPECT_RATIO
    assert "when it is unpacked" in refused(workshop, name, packed).message


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.zip", "utf16.jsonl"])
def test_a_damaged_file_is_named(workshop: Workshop, name: str) -> None:
    whole = FILES[name]()
    chance = random.Random(7)
    for size in (len(whole) - 5, len(whole) // 2, 12):
        error = refused(workshop, name, whole[:size])
        assert name in error.message
    for _ in range(10):
        damaged = bytearray(whole)
        damaged[chance.randrange(4, len(whole))] ^= 0x55
        path = workshop.folder / name
        path.write_bytes(damaged)
        try:
            workshop.build(path, {**PLAIN, "recipe.data.train": [source(name)]})
        except BadInput as error:
            assert name in error.message


def test_a_list_that_is_cut_off_is_refused_even_where_broken_rows_are_left_out(workshop: Workshop) -> None:
    path = workshop.folder / "train.json"
    for text in (json.dumps(ROWS)[:-1], json.dumps(ROWS)[:-40], json.dumps(ROWS).replace("line", 'line"', 1)):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"train\.json"):
            workshop.build(path, {**PLAIN, "recipe.data.on_bad_row": "error"})
    path.write_text(json.dumps(ROWS)[:-40])
    with pytest.raises(BadInput, match=r"train\.json, row 7: the file ends before its last value does"):
        workshop.build(path, {**PLAIN, "recipe.data.on_bad_row": "skip"})


def test_a_broken_row_of_a_list_has_its_number(workshop: Workshop) -> None:
    path = workshop.folder / "train.json"
    rows = [json.dumps(row) for row in ROWS]
    path.write_text("[" + ",\n".join([*rows[:3], '{"prompt": 1,}', *rows[3:]]) + "]")
    with pytest.raises(
        BadInput, match=r"1 row is broken:\ntrain\.json, row 4: not valid JSON: trailing comma"
    ):
        workshop.build(path, PLAIN)
    assert workshop.build(path, {**PLAIN, "recipe.data.on_bad_row": "skip"}).ledger()["used"] == 7


def test_a_list_has_the_bytes_of_its_lines_on_any_number_of_threads(workshop: Workshop) -> None:
    rows = [{"prompt": f"Q{i} " + "x " * (i % 90), "completion": f"A{i}"} for i in range(8000)]
    whole = workshop.folder / "whole.json"
    whole.write_text(json.dumps(rows))
    assert whole.stat().st_size > 1 << 20, "more than one part"
    lines = workshop.build(workshop.jsonl(rows), PLAIN)
    for threads in (1, 3):
        (workshop.folder / "cache").rename(workshop.folder / f"cache-{threads}")
        of_list = workshop.build(whole, {**PLAIN, "machine.threads.pretokenize": threads})
        assert of_list.description.splits["train"].sha256 == lines.description.splits["train"].sha256
        assert of_list.ledger()["read"] == 8000


def test_bz2_is_not_read_as_rows(workshop: Workshop) -> None:
    assert "rows.jsonl" in refused(workshop, "rows.jsonl", bz2.compress(LINES.encode())).message


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_folder_may_have_more_files_than_can_be_open_at_once(tmp_path: Path) -> None:
    import resource

    names = [f"part-{number}.parquet" for number in range(80)]
    for number, name in enumerate(names):
        parquet.write_table(pa.table({"text": [f"line {number}"]}), tmp_path / name)
    places = {name: str(tmp_path / name) for name in names}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(file.name) for file in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 40, hard))
    try:
        made = [Source(name=name, format="parquet", weight=1.0, task=None) for name in names]
        opened = [open_source(source, places, tmp_path / "scratch") for source in made]
        found = [row for place in opened if not isinstance(place, str) for row, _ in rows_of_columns(place)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [json.loads(str(row)) for row in found] == [{"text": f"line {number}"} for number in range(80)]
