"""Quotes in tables: no row is lost in another one's field, and no quote is dropped, without a word."""

import csv
import io
from pathlib import Path

import pytest
from pretokenize.workshop import Workshop

from expert_worker.errors import BadInput
from expert_worker.pretokenize import csv_quotes
from expert_worker.pretokenize.csv_rows import CsvRows

FIX = "put the whole field into double quotes and double each quote inside it"
# The row and how its fault is called, between two rows that are whole.
BROKEN = {
    "text behind the closing quote": ('"Hi," he said.,2', "field 1 continues after its closing quote ( he"),
    "backslashes": (r'1,"say \"hi\""', r'field 2 continues after its closing quote (hi\"")'),
    "a quote that another row closes": (
        '1,"Yes\n2,no\n3,"maybe"',
        "field 2, which takes 3 lines, continues after its closing quote (maybe",
    ),
}


def rows(path: Path) -> list[object]:
    """Values of each row, or why it is broken."""
    found: list[object] = []
    for batch in CsvRows(path):
        if isinstance(batch, str):
            found.append(batch)
        else:
            found += [tuple(value.decode() for value in row.values()) for row in batch.to_pylist()]
    return found


@pytest.fixture(params=[1, 7, 1 << 18])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a part that is read at once ends."""
    monkeypatch.setattr(csv_quotes, "_READ", request.param)


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("name", BROKEN)
def test_a_quote_within_a_quoted_field_is_a_broken_row(tmp_path: Path, name: str) -> None:
    text, reason = BROKEN[name]
    path = tmp_path / "train.csv"
    path.write_text(f'prompt,completion\n"a ""b""","c,\n\nd"\n{text}\n5" pipe,"e"\n', newline="")
    first, broken, last = rows(path)
    assert (first, last) == (('a "b"', "c,\n\nd"), ('5" pipe', "e"))
    assert isinstance(broken, str) and broken.startswith(reason) and broken.endswith(FIX)


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("first", ["sep=;\r\n", "\ufeffsep=;\r\n", '"sep=;"\n', "SEP=;\n\n"])
def test_a_line_that_names_the_separator_stands_before_the_header(tmp_path: Path, first: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(f"{first}prompt, with commas, here;completion\na;b\nc;d;e\n", newline="")
    assert CsvRows(path).schema.names == ["prompt, with commas, here", "completion"]
    whole, broken = rows(path)
    assert whole == ("a", "b") and str(broken).startswith("3 fields where the header has 2")


def test_a_column_may_be_called_like_the_line_that_names_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("sep=,completion\na,b\n")
    assert CsvRows(path).schema.names == ["sep=", "completion"]


@pytest.mark.usefixtures("read")
def test_a_quote_that_is_never_closed_takes_no_other_row(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text('prompt,completion\n1,"Yes\n2,no\n3,maybe\n')
    broken, *others = rows(path)
    assert others == [("2", "no"), ("3", "maybe")]
    assert str(broken).startswith("the quote that opens field 2 is not closed: close it, or ")


def test_broken_quotes_are_named_by_their_rows_or_counted(workshop: Workshop) -> None:
    path = workshop.folder / "train.csv"
    path.write_text('prompt,completion\nq1,a1\n"q" 2,a2\nq3,a3\nq4\nq5,"a"5\n')
    with pytest.raises(BadInput) as caught:
        workshop.build(path)
    said = str(caught.value)
    assert "train.csv, row 2: field 1 continues after its closing quote ( 2,a2)" in said
    assert "train.csv, row 4: 1 field where the header has 2" in said
    assert "train.csv, row 5: field 2 continues after its closing quote (5)" in said
    cache = workshop.build(path, {"recipe.data.on_bad_row": "skip"})
    assert (cache.ledger()["read"], cache.ledger()["used"], cache.ledger()["bad"]) == (5, 2, 3)


def test_a_header_with_such_a_quote_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text('"prompt" here,completion\nq,a\n')
    with pytest.raises(ValueError, match="the header: field 1 continues after its closing quote"):
        CsvRows(path)


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_between_tabs_are_characters_unless_the_field_is_quoted(tmp_path: Path, end: str) -> None:
    texts = ['"Hi," he said.', 'He said "no".', '"Yes', "q4", 'End"', '"', '"a\\"', '"quoted"', '"a ""b"""']
    path = tmp_path / "train.tsv"
    path.write_text(end.join(["prompt\tcompletion", *[f"{text}\t{text}" for text in texts], ""]), newline="")
    expected = [*texts[:-3], "a\\", "quoted", 'a "b"']
    assert rows(path) == [(text, text) for text in expected]


@pytest.mark.usefixtures("read")
def test_a_quoted_field_between_tabs_may_hold_line_ends_and_tabs(tmp_path: Path) -> None:
    texts = ["one\ntwo", 'a "b"\r\n\r\nc', "tab\there", "def f():\n\tif x:\n\t\treturn", 'x"']
    out = io.StringIO(newline="")
    table = csv.writer(out, delimiter="\t")
    table.writerow(["prompt", "completion", "tag"])
    table.writerows([text, text, "t"] for text in texts)
    path = tmp_path / "train.tsv"
    path.write_text(out.getvalue(), newline="")
    assert rows(path) == [(text, text, "t") for text in texts]


def test_a_row_without_an_end_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_quotes, "_LONGEST", 100)
    monkeypatch.setattr(csv_quotes, "_READ", 10)
    longest = 0

    class Table(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal longest
            longest = max(longest, size or 0)
            return super().read(size)

    for row in ('"q"x', '"q', "q"):
        text = csv_quotes.CsvText(Table(b"prompt,completion\n" + row.encode() + b"y" * 5000), ",")
        assert b"y" * 50 in text.read()
        assert longest <= 400
