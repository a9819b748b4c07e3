"""Data that is damaged, or made to harm: refused in words with its place, never read out of its buffers."""

import os
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pretokenize.workshop import Workshop

from expert_worker.errors import BadInput
from expert_worker.pretokenize import csv_rows

PROMPTS = [f"Question number {n}" for n in range(6)]
ANSWERS = [f"Answer {n}" for n in range(6)]


def arrow_file(path: Path, table: Any) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def table() -> Any:
    return pa.table({"prompt": PROMPTS, "completion": ANSWERS})


@pytest.mark.parametrize("offset", [2**31 - 1, 60_000, -4, 1])
def test_text_offsets_that_lead_elsewhere_are_a_damaged_row(workshop: Workshop, offset: int) -> None:
    path = arrow_file(workshop.folder / "train.arrow", table())
    stored = path.read_bytes()
    ends = [0]
    for answer in ANSWERS:
        ends.append(ends[-1] + len(answer))
    good = struct.pack("<7i", *ends)
    assert stored.count(good) == 1
    bad = struct.pack("<7i", *ends[:3], offset, *ends[4:])
    path.write_bytes(stored.replace(good, bad))
    with pytest.raises(
        BadInput, match=r"train\.arrow, row 3: the row is damaged|train\.arrow cannot be read"
    ) as refused:
        workshop.build(path)
    assert "train.arrow:1:" not in refused.value.message and "train.arrow:6:" not in refused.value.message


def test_offsets_that_all_lead_far_beyond_the_text_are_damaged_rows(workshop: Workshop) -> None:
    """Each text has its right length, so only the size of the buffer shows it."""
    path = arrow_file(workshop.folder / "train.arrow", table())
    ends = [0]
    for answer in ANSWERS:
        ends.append(ends[-1] + len(answer))
    far = [end + 2**30 for end in ends[1:]]
    stored = path.read_bytes().replace(struct.pack("<7i", *ends), struct.pack("<7i", 0, *far))
    path.write_bytes(stored)
    with pytest.raises(
        BadInput, match=r"train\.arrow, row 1: the row is damaged.*\(6 rows: 1, 2, 3, 4, 5, 6\)"
    ):
        workshop.build(path)


def test_text_that_is_not_utf8_is_a_row_with_its_place(workshop: Workshop) -> None:
    path = arrow_file(workshop.folder / "train.arrow", table())
    path.write_bytes(path.read_bytes().replace(b"Answer 4", b"Answ\xff\xfe 4"[:8]))
    with pytest.raises(BadInput, match=r"1 row is broken:\ntrain\.arrow, row 5: .*UTF"):
        workshop.build(path)


def test_broken_rows_are_left_out_where_that_is_asked(workshop: Workshop) -> None:
    path = arrow_file(workshop.folder / "train.arrow", table())
    path.write_bytes(path.read_bytes().replace(b"Answer 4", b"Answ\xff\xfe 4"[:8]))
    cache = workshop.build(path, {"recipe.data.on_bad_row": "skip"})
    assert (cache.ledger()["read"], cache.ledger()["used"], cache.ledger()["bad"]) == (6, 5, 1)


def test_nested_text_is_checked_too(workshop: Workshop) -> None:
    messages = [
        [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        for question, answer in zip(PROMPTS, ANSWERS, strict=True)
    ]
    path = arrow_file(workshop.folder / "train.arrow", pa.table({"messages": messages}))
    path.write_bytes(path.read_bytes().replace(b"Answer 2", b"Answ\xff\xfe 2"[:8]))
    with pytest.raises(BadInput, match=r"train\.arrow, row 1: .*UTF.*\(6 rows: 1, 2, 3, 4, 5, 6\)"):
        workshop.build(path)


def test_a_csv_in_another_encoding_names_its_rows(workshop: Workshop) -> None:
    path = workshop.folder / "train.csv"
    path.write_bytes("prompt,completion\none,two\nc'est,été\n".encode("latin-1"))
    with pytest.raises(BadInput, match=r"train\.csv, row 2: the column \"completion\": byte 1 is not UTF-8"):
        workshop.build(path)


def test_csv_rows_of_too_many_or_too_few_fields_have_their_numbers(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several blocks; such rows come first, last, side by side, and after a blank line.
    monkeypatch.setattr(csv_rows, "_BLOCK", 512)
    ragged = {1: "one", 40: "a,b,c", 41: "a,b,c,d", 250: "alone", 300: ",,"}
    lines = [ragged.get(number, f'"question\n{number}",answer {number}') for number in range(1, 301)]
    path = workshop.folder / "train.csv"
    path.write_text("\n".join(["prompt,completion", *lines[:40], "", *lines[40:]]) + "\n")
    with pytest.raises(BadInput) as caught:
        workshop.build(path)
    said = str(caught.value)
    assert "5 rows are broken:\ntrain.csv, row 40: 3 fields where the header has 2: put fields" in said
    assert "train.csv, row 1: 1 field where the header has 2" in said
    for number in ragged:
        assert re.search(rf"\b{number}\b", said), number
    cache = workshop.build(path, {"recipe.data.on_bad_row": "skip"})
    assert (cache.ledger()["read"], cache.ledger()["used"], cache.ledger()["bad"]) == (300, 295, 5)


def test_a_csv_row_may_be_some_megabytes_long(workshop: Workshop) -> None:
    path = workshop.folder / "train.csv"
    path.write_text(f"prompt,completion\nq,{'word ' * 600_000}\n")
    assert workshop.build(path).ledger()["used"] == 1


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "arrow"])
def test_a_row_is_at_most_16_mib_in_every_format(workshop: Workshop, kind: str) -> None:
    path = workshop.folder / f"train.{kind}"
    long = "word " * (17 * 2**20 // 5)
    rows = pa.table({"prompt": ["q", "q"], "completion": ["a", long]})
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "arrow":
        arrow_file(path, rows)
    elif kind == "csv":
        path.write_text(f"prompt,completion\nq,a\nq,{long}\n")
    else:
        path.write_text(f'[{{"prompt": "q", "completion": "a"}}, {{"prompt": "q", "completion": "{long}"}}]')
    with pytest.raises(BadInput, match=r"16 MiB"):
        workshop.build(path)


def test_a_small_parquet_file_that_becomes_huge_is_refused_before_it_is_read(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workshop.folder / "train.parquet"
    pq.write_table(pa.table({"prompt": ["q"], "completion": ["a" * (150 << 20)]}), path, compression="zstd")
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(BadInput, match=r"the column completion becomes 157 MB"):
        workshop.build(path)


def test_a_pipe_or_a_device_is_refused_unread(workshop: Workshop) -> None:
    pipe = workshop.folder / "train.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="a pipe or a device"):
        workshop.build(pipe)
    with pytest.raises(BadInput, match="a pipe or a device"):
        workshop.build(Path("/dev/zero"))


def test_a_line_over_many_parts_is_one_fault_and_its_neighbours_are_read(workshop: Workshop) -> None:
    row = b'{"prompt": "q", "completion": "a"}\n'
    path = workshop.folder / "train.jsonl"
    path.write_bytes(row + b'{"prompt": "' + b"x" * (40 << 20) + b'"}\n' + row * 3)
    with pytest.raises(BadInput, match=r"1 row is broken:\ntrain\.jsonl:2: the row is 41\.9 MB long"):
        workshop.build(path)
    cache = workshop.build(path, {"recipe.data.on_bad_row": "skip"})
    assert (cache.ledger()["read"], cache.ledger()["used"]) == (5, 4)


def test_a_row_at_the_border_of_two_parts_is_read_once(workshop: Workshop) -> None:
    start = b'{"prompt": "q", "completion": "'
    for length in ((1 << 19) - 1, 1 << 19, (1 << 19) + 1):
        path = workshop.folder / f"{length}.jsonl"
        first = start + b"x" * (length - len(start) - 3) + b'"}\n'
        assert len(first) == length
        path.write_bytes(first + start + b'last"}\n')
        ledger = workshop.build(path).ledger()
        assert (ledger["read"], ledger["used"]) == (2, 2)
