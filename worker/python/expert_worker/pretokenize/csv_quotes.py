"""The text of a table with separators, in which every quote means what pyarrow takes it for.

pyarrow reads on where a quoted field continues after its closing quote, or is never closed: it drops quotes,
or takes the following rows into the field. Here such a row is replaced by a mark that pyarrow reports.
Between tabs, where most writers do not quote, such a quote is a character.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import BinaryIO

_READ = 1 << 18
# A quoted field that is longer is one that is never closed.
_LONGEST = 17 << 20
_TAB = b"\t"
_BOM = b"\xef\xbb\xbf"
_BALANCED = re.compile(rb'"[^"]*+(?:""[^"]*+)*+"')
_LINE_ENDS = re.compile(rb"[\r\n]")
_SHOWN = 20


@dataclass(frozen=True)
class _Row:
    end: int
    fields: int


@dataclass(frozen=True)
class _Fault:
    at: int
    """Where the field continues after its closing quote; of a field without one, its start."""
    field: int
    is_closed: bool


class CsvText(io.RawIOBase):
    """The table, to be read once."""

    def __init__(self, table: BinaryIO, delimiter: str) -> None:
        self.reasons: dict[str, str] = {}
        """Why a row is broken, by the text that stands in its place."""
        self._table = table
        self._delimiter = delimiter.encode()
        between = re.escape(self._delimiter)
        # Between tabs a quoted field over several lines may be several rows.
        inside = rb'[^"\t\r\n]*+' if delimiter == "\t" else rb'[^"]*+'
        self._plain = re.compile(
            rb'(?:[^"\r\n]+|([\r\n]+)'
            rb'|(?<![^%s\r\n])"%s(?:""%s)*+"(?=[%s\r\n])'
            rb'|(?<=[^%s\r\n])")*' % (between, inside, inside, between, between)
        )
        self._ends = re.compile(rb"[%s\r\n]" % between)
        self._columns = 0
        self._numbers = count()
        self._pieces = self._checked()
        self.header = next(self._pieces, b"")
        self._text = bytearray(self.header)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Less than `size` only at the end: of a shorter block pyarrow expects shorter rows."""
        while size < 0 or len(self._text) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._text += piece
        size = len(self._text) if size < 0 else size
        found = bytes(self._text[:size])
        del self._text[:size]
        return found

    def close(self) -> None:
        self._table.close()
        super().close()

    def _checked(self) -> Iterator[bytes]:
        """The header, then the rows."""
        text, is_whole = self._more(b"")
        text = text.removeprefix(_BOM).lstrip(b"\r\n")
        while (header := self._row(text, 0, is_whole)) is None:
            text, is_whole = self._more(text)
        if isinstance(header, _Fault):
            raise ValueError(f"the header: {self._reason(text, 0, header)}")
        self._columns, begin = header.fields, header.end
        if text:
            yield text[:begin] + b"\n"
        while begin < len(text) or not is_whole:
            row, is_plain = self._last_row(text, begin)
            yield text[begin:row]
            # Of a row that is too long to be read, pyarrow or the native reader says so.
            is_all = is_whole or len(text) - row > 2 * _LONGEST
            odd = None if is_plain else self._odd_row(text, row, is_all)
            if odd is not None:
                replaced, begin = odd
                yield replaced
            elif is_all:
                yield text[row:]
                begin = len(text)
            else:
                text, is_whole = self._more(text[row:])
                begin = 0
        self._table.close()

    def _more(self, text: bytes) -> tuple[bytes, bool]:
        """Twice as much of a long row, so that it is not read again too often; whether that is the end."""
        found = self._table.read(max(_READ, len(text)))
        return text + found, not found

    def _last_row(self, text: bytes, begin: int) -> tuple[int, bool]:
        """Where the last row begins that is not whole or not plain, and whether everything here is plain."""
        if text.find(b'"', begin) < 0:
            return max(begin, text.rfind(b"\n") + 1, text.rfind(b"\r") + 1), True
        found = self._plain.match(text, begin)
        assert found is not None  # It may be empty.
        return max(begin, found.end(1)), found.end() == len(text)

    def _row(self, text: bytes, start: int, is_whole: bool) -> _Row | _Fault | None:
        """The row that starts here, by the rules of quotes; None where its end is not there yet."""
        at, field = start, 1
        while True:
            if text.startswith(b'"', at):
                closing = _closing_quote(text, at)
                if closing is None or (closing + 1 == len(text) and not is_whole):
                    is_unclosed = is_whole or len(text) - at > _LONGEST
                    return _Fault(at, field, is_closed=False) if is_unclosed else None
                at = closing + 1
            else:
                end = self._ends.search(text, at)
                if end is None and not is_whole:
                    return None
                at = len(text) if end is None else end.start()
            if at == len(text) or text[at] in b"\r\n":
                return _Row(at, field)
            if not text.startswith(self._delimiter, at):
                return _Fault(at, field, is_closed=True)
            at += 1
            field += 1

    def _odd_row(self, text: bytes, start: int, is_whole: bool) -> tuple[bytes, int] | None:
        """What stands for the row that starts here, and where it ends; None where that is not there yet."""
        found = self._row(text, start, is_whole)
        if found is None:
            return None
        if isinstance(found, _Row) and not self._is_rather_lines(text[start : found.end], found):
            return text[start : found.end] + b"\n", found.end
        fault = found if isinstance(found, _Fault) and self._delimiter != _TAB else None
        end = _line_end(text, fault.at if fault is not None and fault.is_closed else start)
        if end is None and not is_whole:
            return None
        end = len(text) if end is None else end
        if fault is None:
            return self._unquoted(text[start:end]), end
        mark = f"{self._delimiter.decode() * self._columns}__broken__{next(self._numbers)}"
        self.reasons[mark] = self._reason(text, start, fault)
        return mark.encode() + b"\n", end

    def _is_rather_lines(self, text: bytes, row: _Row) -> bool:
        """Whether a row is one line or several, between tabs, whose quotes are characters: it has another
        number of fields than the header, or each of its lines has that number."""
        if self._delimiter != _TAB:
            return False
        lines = [line for line in text.splitlines() if line]
        each = len(lines) > 1 and all(line.count(_TAB) + 1 == self._columns for line in lines)
        return each or row.fields != self._columns

    def _unquoted(self, line: bytes) -> bytes:
        """A line between tabs, with quotes around each field that begins with one and is not quoted."""
        fields = [
            b'"' + field.replace(b'"', b'""') + b'"'
            if field.startswith(b'"') and not _BALANCED.fullmatch(field)
            else field
            for field in line.split(_TAB)
        ]
        return _TAB.join(fields) + b"\n"

    def _reason(self, text: bytes, start: int, fault: _Fault) -> str:
        if not fault.is_closed:
            return (
                f"the quote that opens field {fault.field} is not closed: close it, or put the field into "
                "double quotes and double each quote inside it"
            )
        lines = len(text[start : fault.at].splitlines())
        rest = text[fault.at : fault.at + _SHOWN].splitlines()[0].decode(errors="replace")
        over = f", which takes {lines} lines," if lines > 1 else ""
        return (
            f"field {fault.field}{over} continues after its closing quote ({rest}): put the whole field into "
            "double quotes and double each quote inside it"
        )


def _closing_quote(text: bytes, opening: int) -> int | None:
    """The first one behind it that is not doubled."""
    at = text.find(b'"', opening + 1)
    while at >= 0 and text.startswith(b'"', at + 1):
        at = text.find(b'"', at + 2)
    return None if at < 0 else at


def _line_end(text: bytes, start: int) -> int | None:
    found = _LINE_ENDS.search(text, start)
    return None if found is None else found.start()
