"""Rows to score: one mapping each, with question, reference answer and the scorer's other fields."""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

from expert_worker._native import BROKEN_COLUMN, RowReader
from expert_worker.errors import BadInput
from expert_worker.evaluate.verdict import Row
from expert_worker.plan import Data, Source
from expert_worker.pretokenize.broken_rows import BrokenRows
from expert_worker.pretokenize.sources import BROKEN_CODE, is_pointer, place_of_row
from expert_worker.pretokenize.unpack import GZIP, ZSTD

# Role and content, and of an answer that calls tools also the calls.
Message = dict[str, Any]
LONGEST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"
_PACKED = (b"PK", GZIP, ZSTD)
# Blanks around a row, as the native reader skips them.
_BLANK = b" \t\r\n\x0c"
# As the native reader calls them: their hints say how to convert or to fetch the file.
_NOT_UTF8, _LFS_POINTER = "not_utf8", "lfs_pointer"
_NOT_AN_OBJECT = "a row must be an object"
NEEDED = "a scored row needs a prompt and a completion, an instruction and an output, or messages"


T = TypeVar("T")


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, at even distances: a file may be sorted by what its rows are about."""
    wanted = min(count, len(items))
    return [items[place * len(items) // wanted] for place in range(wanted)]


def drawn(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items: one of each of as many equal stretches, at random but always the same.
    Items at even distances would all be of one kind where a file's rows take turns."""
    wanted = min(count, len(items))
    draw = random.Random(0)
    edges = [place * len(items) // wanted for place in range(wanted + 1)] if wanted else []
    return [items[draw.randrange(first, end)] for first, end in pairwise(edges)]


def rows_of(
    sources: Sequence[Source],
    field_mapping: Mapping[str, str],
    files: Mapping[str, str],
    limit: int | None = None,
    *,
    broken: BrokenRows | None = None,
) -> list[Row]:
    """Rows of these sources in file order, each with `messages` (the question) and `completion`; `files` has
    the place of each source on this machine. Rows that cannot be read or asked, such as texts without a
    question, are left out and noted in `broken`; without it they are an error that names them all."""
    return [row for _, row in _placed_rows(sources, field_mapping, files, limit, broken)]


def skipped_rows(data: Data) -> BrokenRows | None:
    """For `broken`: what the manifest says of rows that cannot be read."""
    return BrokenRows() if data.on_bad_row == "skip" else None


def places_of(
    sources: Sequence[Source],
    field_mapping: Mapping[str, str],
    files: Mapping[str, str],
    *,
    broken: BrokenRows | None = None,
) -> list[str]:
    """Where each row stands that `rows_of` gives. The files are read again."""
    return [place for place, _ in _placed_rows(sources, field_mapping, files, None, broken)]


def _placed_rows(
    sources: Sequence[Source],
    field_mapping: Mapping[str, str],
    files: Mapping[str, str],
    limit: int | None,
    broken: BrokenRows | None,
) -> list[tuple[str, Row]]:
    noted = BrokenRows() if broken is None else broken
    found = list(islice(_usable_rows(sources, field_mapping, files, noted), limit))
    if broken is None and noted.total:
        raise noted.error()
    return found


def _usable_rows(
    sources: Sequence[Source], field_mapping: Mapping[str, str], files: Mapping[str, str], broken: BrokenRows
) -> Iterator[tuple[str, Row]]:
    for source in sources:
        for number, raw in numbered_rows(source, files):
            try:
                if isinstance(raw, BadInput):
                    raise raw
                row = canonical_row(raw, field_mapping)
            except BadInput as error:
                broken.add(error, source.name, number)
            else:
                yield place_of_row(source.name, number), row


# In place of a row that cannot be read stands the reason: those behind it can be.
NumberedRows = Iterator[tuple[int, Mapping[str, Any] | BadInput]]


def numbered_rows(source: Source, files: Mapping[str, str]) -> NumberedRows:
    """As they are in the file, each with its number from 1: of its line, where rows are lines."""
    path = files.get(source.name)
    if path is not None:
        yield from _file_rows(source, files, Path(path))
    elif source.format == "huggingface":
        yield from _table_rows(source, files, source.name)
    else:
        raise BadInput(f"The plan does not say where {source.name} is", code="bad-plan")


def _file_rows(source: Source, files: Mapping[str, str], path: Path) -> NumberedRows:
    """Of rows by line each is named with its own line."""
    if is_pointer(path):
        yield 1, BadInput("is a Git LFS pointer, not the data", code=_LFS_POINTER)
    elif source.format == "jsonl" and path.is_file() and _is_plain(path):
        yield from _json_lines(path)
    else:
        yield from _table_rows(source, files, str(path))


def _table_rows(source: Source, files: Mapping[str, str], name: str) -> NumberedRows:
    """As training reads them."""
    from expert_worker.pretokenize.preview import rows_as_json

    texts, number = rows_as_json(source, files, sys.maxsize, strict=True), 0
    while True:
        number += 1
        try:
            text = next(texts, None)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{name}:{number}: this row cannot be read: {error}", code="bad-row") from None
        if text is None:
            return
        yield number, _table_row(text)


def _table_row(text: str) -> Mapping[str, Any] | BadInput:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _bad(f"this row cannot be read: {error}")
    if isinstance(row, dict) and {BROKEN_CODE, BROKEN_COLUMN} == row.keys():
        return BadInput(row[BROKEN_COLUMN], code=row[BROKEN_CODE])
    if isinstance(row, dict) and BROKEN_COLUMN in row:
        return _bad(f"this row cannot be read: {row[BROKEN_COLUMN]}")
    return row if isinstance(row, dict) else _bad(_NOT_AN_OBJECT)


def _bad(message: str, hint: str | None = None) -> BadInput:
    """A row's fault, without its place."""
    return BadInput(message, hint=hint, code="bad-row")


def _is_plain(path: Path) -> bool:
    """Whether it is rows of text by line, neither packed nor in another encoding."""
    from expert_worker._native import layout

    with path.open("rb") as stream:
        head = stream.read(4).removeprefix(_BOM)
    is_text = head[:1].isascii() and b"\0" not in head and not head.startswith(_PACKED)
    return is_text and layout(str(path)) == "lines"


def _json_lines(path: Path) -> NumberedRows:
    number = 0
    with path.open("rb") as lines:
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            text = line.removeprefix(_BOM) if number == 1 else line
            if len(line) > LONGEST_LINE:
                longer = f"this line is longer than {LONGEST_LINE >> 20} MiB"
                yield number, _bad(longer, "Write one row per line.")
            elif text.strip():
                yield number, _row_of_line(text.strip(_BLANK))
            while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                line = lines.readline(LONGEST_LINE + 1)


def _row_of_line(text: bytes) -> Mapping[str, Any] | BadInput:
    try:
        line = text.decode()
        row = json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        return _bad("this row is nested too deeply")
    except UnicodeDecodeError as error:
        return BadInput(f"byte {error.start + 1} of the row is not UTF-8", code=_NOT_UTF8)
    except ValueError as error:
        return _not_json(line, error)
    return row if isinstance(row, dict) else _bad(_NOT_AN_OBJECT)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of range")
    return number


def _not_json(line: str, error: ValueError) -> BadInput:
    """In the words of training."""
    try:
        _reader(()).read(line)
    except ValueError as refused:
        message, hint = (*refused.args, None)[:2]
        return _bad(message, hint)
    return _bad(f"not valid JSON: {error}")


def canonical_row(raw: Mapping[str, Any], mapping: Mapping[str, str]) -> Row:
    """The row with its own and the mapped fields, and as training reads it: `messages` (the question),
    `completion` and, where it has some, `tools`. What it lacks is an error without the row's place."""
    row = {**raw, **{name: dotted(raw, path) for name, path in mapping.items()}}
    _check_tags(row)
    _check_text(row)
    messages, tools = _read(raw, mapping)
    last = max((at for at, turn in enumerate(messages) if turn["role"] == "assistant"), default=0)
    if last == 0:
        raise _bad(NEEDED, "Name the fields in training.dataset.field_mapping.")
    completion = messages[last].get("content")
    if not isinstance(completion, str) or not completion.strip():
        raise _bad(
            "the last answer has no text, and only text is scored",
            "End the dialogue before this answer, or leave the row out.",
        )
    found = {**row, "messages": messages[:last], "completion": completion}
    return {**found, "tools": tools} if tools else found


def text_of(message: Message) -> str:
    """What a message says, for people and judges: of one without a text its calls of tools, as JSON."""
    text, calls = message.get("content"), message.get("tool_calls")
    return json.dumps(calls, ensure_ascii=False) if calls and not text else str(text or "")


def _read(raw: Mapping[str, Any], mapping: Mapping[str, str]) -> tuple[list[Message], Any]:
    try:
        messages, tools = _reader(tuple(mapping.items())).read(
            json.dumps(raw, ensure_ascii=False, default=str)
        )
    except ValueError as error:
        message, hint = (*error.args, None)[:2]
        if "recursion limit" in message:
            message = "this row is nested too deeply"
        raise _bad(message, hint) from None
    return json.loads(messages), None if tools is None else json.loads(tools)


@lru_cache(maxsize=8)
def _reader(mapping: tuple[tuple[str, str], ...]) -> RowReader:
    return RowReader(dict(mapping))


def tags_of(row: Row) -> list[str]:
    """A text is one tag, since a table holds no lists. A row without tags has null or an empty text there."""
    tags = row.get("tags")
    listed = tags if isinstance(tags, list | tuple) else [tags]
    return [str(tag) for tag in listed if tag not in (None, "")]


def level_of(row: Row) -> str | None:
    """A column in which some rows have no level holds floats: 2.0 is level 2."""
    level = row.get("level")
    if level in (None, ""):
        return None
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _check_tags(row: Row) -> None:
    if not isinstance(row.get("tags"), list | tuple | str | None):
        raise _bad("tags must be a list, or a text that is one tag", 'For example "tags": ["join"].')


def _check_text(row: Row) -> None:
    """A row is written to evaluation.json and sent to the scorer: half of a surrogate pair has no bytes."""
    for name, value in row.items():
        try:
            json.dumps([name, value], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            sign = ascii(str(error.object)[error.start])
            raise _bad(
                f"the field {name!a} holds {sign}, half of a surrogate pair, not Unicode",
                "Remove it, or write the whole character.",
            ) from None
        except (ValueError, RecursionError):
            raise _bad(f"the field {name!a} is nested too deeply") from None


def dotted(raw: Mapping[str, Any], path: str) -> Any:
    """What a path leads to; a key that itself holds dots wins over the path, as in training."""
    if path in raw:
        return raw[path]
    head, _, rest = path.partition(".")
    inner = raw.get(head)
    return dotted(inner, rest) if rest and isinstance(inner, Mapping) else None
