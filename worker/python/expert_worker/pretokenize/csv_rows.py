"""Rows of a table with separators. Those with too few or too many fields, or with a quoted field that does
not end at its closing quote, are reported by their numbers."""

from __future__ import annotations

import io
import re
from collections import Counter, deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from expert_worker.pretokenize.csv_quotes import CsvText

# Bytes that are parsed at once: no less than a row may be long.
_BLOCK = 17 << 20
_HEAD = 1 << 18
# What Excel writes and reads before the header: `sep=;`.
_SEPARATOR_LINE = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([^\w\s"\x80-\xff]|\t)"?[\r\n]+', re.IGNORECASE)


class NamedTwice(ValueError):
    """A header with two columns of one name."""


class CsvRows:
    """Batches of rows and, in their places, the reason why a row cannot be read."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import csv

        # Of each such row its number, from 1, and the reason.
        self._broken: deque[tuple[int, str]] = deque()
        read = csv.ReadOptions(block_size=_BLOCK, use_threads=False)
        delimiter, start = _delimiter(path)
        table = path.open("rb")
        table.seek(start)
        text = CsvText(table, delimiter)
        # The parser is freed only if nothing that it holds leads back to it.
        note = partial(_note, self._broken, text.reasons)
        parse = csv.ParseOptions(newlines_in_values=True, delimiter=delimiter, invalid_row_handler=note)
        head = csv.open_csv(io.BytesIO(text.header), parse_options=parse).schema
        twice = [name for name, count in Counter(head.names).items() if count > 1]
        if twice:
            raise NamedTwice(f'two columns are named "{twice[0]}"')
        # Every field is text: a column of numbers is still something to be written out. UTF-8 is checked by
        # the native reader, which names the row.
        types = {name: pa.binary() for name in head.names}
        convert = csv.ConvertOptions(column_types=types, strings_can_be_null=False, check_utf8=False)
        self._batches = csv.open_csv(text, read_options=read, convert_options=convert, parse_options=parse)
        self.schema = self._batches.schema

    def __iter__(self) -> Iterator[Any]:
        number = 1
        for batch in self._batches:
            done = 0
            while self._broken and self._broken[0][0] - number <= batch.num_rows - done:
                before = self._broken[0][0] - number
                if before:
                    yield batch.slice(done, before)
                done += before
                number += before + 1
                yield self._broken.popleft()[1]
            if done < batch.num_rows:
                yield batch.slice(done)
            number += batch.num_rows - done
        while self._broken:
            yield self._broken.popleft()[1]


def _note(broken: deque[tuple[int, str]], reasons: dict[str, str], row: Any) -> str:
    fields = row.actual_columns
    reason = reasons.pop(row.text, None) or (
        f"{fields} field{'' if fields == 1 else 's'} where the header has {row.expected_columns}: put fields "
        "that hold the separator, a quote or a line break into double quotes"
    )
    # The header is the first row for the parser.
    broken.append((row.number - 1, reason))
    return "skip"


def _delimiter(path: Path) -> tuple[str, int]:
    """The one that the header has most of, outside quotes, and where the header begins."""
    with path.open("rb") as stream:
        start = stream.read(_HEAD)
    if named := _SEPARATOR_LINE.match(start):
        return named[1].decode(), named.end()
    head = start.decode(errors="replace")
    outside = "".join(head.split('"')[::2])
    header = outside.lstrip("\ufeff\r\n").splitlines()[:1] or [""]
    return max(",;\t|", key=header[0].count), 0
