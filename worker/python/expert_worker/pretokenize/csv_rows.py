"""Rows of a table with separators. Those with too few or too many fields are reported by their numbers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Bytes that are parsed at once: no less than a row may be long.
_BLOCK = 17 << 20
_HEAD = 1 << 18


class CsvRows:
    """Batches of rows and, in their places, the reason why a row cannot be read."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        from pyarrow import csv

        # Of each such row its number, from 1, and its fields.
        self._ragged: deque[tuple[int, int]] = deque()
        read = csv.ReadOptions(block_size=_BLOCK, use_threads=False)
        delimiter = _delimiter(path)

        def parse(ragged: Any) -> Any:
            return csv.ParseOptions(newlines_in_values=True, delimiter=delimiter, invalid_row_handler=ragged)

        with path.open("rb") as stream:
            skipped = parse(lambda _: "skip")
            head = csv.open_csv(stream, read_options=read, parse_options=skipped).schema
        twice = [name for name, count in Counter(head.names).items() if count > 1]
        if twice:
            raise ValueError(f'two columns are named "{twice[0]}": rename one of them')
        # Every field is text: a column of numbers is still something to be written out. UTF-8 is checked by
        # the native reader, which names the row.
        types = {name: pa.binary() for name in head.names}
        convert = csv.ConvertOptions(column_types=types, strings_can_be_null=False, check_utf8=False)
        self._batches = csv.open_csv(
            path, read_options=read, convert_options=convert, parse_options=parse(self._note)
        )
        self.schema = self._batches.schema

    def __iter__(self) -> Iterator[Any]:
        number = 1
        for batch in self._batches:
            done = 0
            while self._ragged and self._ragged[0][0] - number <= batch.num_rows - done:
                before = self._ragged[0][0] - number
                if before:
                    yield batch.slice(done, before)
                done += before
                number += before + 1
                yield self._reason()
            if done < batch.num_rows:
                yield batch.slice(done)
            number += batch.num_rows - done
        while self._ragged:
            yield self._reason()

    def _note(self, row: Any) -> str:
        # The header is the first row for the parser.
        self._ragged.append((row.number - 1, row.actual_columns))
        return "skip"

    def _reason(self) -> str:
        fields = self._ragged.popleft()[1]
        return (
            f"{fields} field{'' if fields == 1 else 's'} where the header has {len(self.schema)}: put fields "
            "that hold the separator, a quote or a line break into double quotes"
        )


def _delimiter(path: Path) -> str:
    """The one that the header has most of, outside quotes."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD).decode(errors="replace")
    outside = "".join(head.split('"')[::2])
    header = outside.lstrip("\ufeff\r\n").splitlines()[:1] or [""]
    return max(",;\t|", key=header[0].count)
