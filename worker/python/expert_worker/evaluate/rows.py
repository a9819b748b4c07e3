"""Rows to score: one mapping each, with question, reference answer and the scorer's other fields."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

from expert_worker._native import BROKEN_COLUMN, RowReader
from expert_worker.errors import BadInput
from expert_worker.evaluate.verdict import Row
from expert_worker.plan import Source
from expert_worker.pretokenize.sources import place_of_row

# Role and content, and of an answer that calls tools also the calls.
Message = dict[str, Any]
LONGEST_LINE = 16 << 20
# More are not scored.
_MOST_ROWS = 10_000_000
_BOM = b"\xef\xbb\xbf"
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
    skip_bad: bool = False,
) -> list[Row]:
    """Rows of these sources in file order, each with `messages` (the question) and `completion`; `files` has
    the place of each source on this machine. With `skip_bad`, rows that cannot be read or asked are left out,
    such as texts without a question."""
    placed = _placed_rows(sources, field_mapping, files, skip_bad=skip_bad)
    return [row for _, row in islice(placed, limit)]


def places_of(
    sources: Sequence[Source],
    field_mapping: Mapping[str, str],
    files: Mapping[str, str],
    *,
    skip_bad: bool = False,
) -> list[str]:
    """Where each row stands that `rows_of` gives. The files are read again."""
    return [place for place, _ in _placed_rows(sources, field_mapping, files, skip_bad=skip_bad)]


def _placed_rows(
    sources: Sequence[Source], field_mapping: Mapping[str, str], files: Mapping[str, str], *, skip_bad: bool
) -> Iterator[tuple[str, Row]]:
    for source in sources:
        for number, raw in numbered_rows(source, files):
            place = place_of_row(source.name, number)
            try:
                if isinstance(raw, BadInput):
                    raise raw
                row = canonical_row(raw, field_mapping, place)
            except BadInput:
                if not skip_bad:
                    raise
            else:
                yield place, row


# A row that cannot be read is the reason: those behind it can be.
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
    if source.format == "jsonl" and path.is_file() and _is_plain(path):
        yield from _json_lines(path)
    else:
        yield from _table_rows(source, files, str(path))


def _table_rows(source: Source, files: Mapping[str, str], name: str) -> NumberedRows:
    """As training reads them."""
    from expert_worker.pretokenize.preview import rows_as_json

    texts, number = rows_as_json(source, files, _MOST_ROWS, strict=True), 0
    while True:
        number += 1
        try:
            text = next(texts, None)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{name}:{number}: this row cannot be read: {error}", code="bad-row") from None
        if text is None:
            return
        yield number, _table_row(text, f"{name}:{number}")


def _table_row(text: str, place: str) -> Mapping[str, Any] | BadInput:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        return BadInput(f"{place}: this row cannot be read: {error}", code="bad-row")
    if isinstance(row, dict) and BROKEN_COLUMN in row:
        return BadInput(f"{place}: this row cannot be read: {row[BROKEN_COLUMN]}", code="bad-row")
    return row if isinstance(row, dict) else _not_an_object(place)


def _not_an_object(place: str) -> BadInput:
    return BadInput(f"{place}: a row must be an object", code="bad-row")


def _is_plain(path: Path) -> bool:
    """Whether it is rows of text by line, neither packed nor in another encoding."""
    from expert_worker._native import layout

    with path.open("rb") as stream:
        head = stream.read(4).removeprefix(_BOM)
    is_text = head[:1].isascii() and b"\0" not in head and not head.startswith((b"PK", b"\x1f\x8b"))
    return is_text and layout(str(path)) == "lines"


def _json_lines(path: Path) -> NumberedRows:
    number = 0
    with path.open("rb") as lines:
        while line := lines.readline(LONGEST_LINE + 1):
            number += 1
            place = f"{path}:{number}"
            text = line.removeprefix(_BOM) if number == 1 else line
            if len(line) > LONGEST_LINE:
                yield number, _too_long(place)
            elif text.strip():
                yield number, _row_of_line(text, place)
            while len(line) > LONGEST_LINE and not line.endswith(b"\n"):
                line = lines.readline(LONGEST_LINE + 1)


def _too_long(place: str) -> BadInput:
    return BadInput(
        f"{place}: this line is longer than {LONGEST_LINE >> 20} MiB",
        hint="Write one row per line.",
        code="bad-row",
    )


def _row_of_line(text: bytes, place: str) -> Mapping[str, Any] | BadInput:
    try:
        row = json.loads(text.decode())
    except RecursionError:
        return BadInput(f"{place}: this row is nested too deeply", code="bad-row")
    except ValueError as error:
        return BadInput(f"{place}: this line is not JSON: {error}", code="bad-row")
    return row if isinstance(row, dict) else _not_an_object(place)


def canonical_row(raw: Mapping[str, Any], mapping: Mapping[str, str], place: str) -> Row:
    """The row with its own and the mapped fields, and as training reads it: `messages` (the question),
    `completion` and, where it has some, `tools`."""
    row = {**raw, **{name: dotted(raw, path) for name, path in mapping.items()}}
    _check_tags(row, place)
    _check_text(row, place)
    messages, tools = _read(raw, mapping, place)
    last = max((at for at, turn in enumerate(messages) if turn["role"] == "assistant"), default=0)
    if last == 0:
        raise BadInput(
            f"{place}: {NEEDED}", hint="Name the fields in training.dataset.field_mapping.", code="bad-row"
        )
    completion = messages[last].get("content")
    if not isinstance(completion, str) or not completion.strip():
        raise BadInput(
            f"{place}: the last answer has no text, and only text is scored",
            hint="End the dialogue before this answer, or leave the row out.",
            code="bad-row",
        )
    found = {**row, "messages": messages[:last], "completion": completion}
    return {**found, "tools": tools} if tools else found


def _read(raw: Mapping[str, Any], mapping: Mapping[str, str], place: str) -> tuple[list[Message], Any]:
    try:
        messages, tools = _reader(tuple(mapping.items())).read(
            json.dumps(raw, ensure_ascii=False, default=str)
        )
    except ValueError as error:
        message, hint = (*error.args, None)[:2]
        if "recursion limit" in message:
            message = "this row is nested too deeply"
        hint = hint or "Name the fields in training.dataset.field_mapping."
        raise BadInput(f"{place}: {message}", hint=hint, code="bad-row") from None
    return json.loads(messages), None if tools is None else json.loads(tools)


@lru_cache(maxsize=8)
def _reader(mapping: tuple[tuple[str, str], ...]) -> RowReader:
    return RowReader(dict(mapping))


def _check_tags(row: Row, place: str) -> None:
    if not isinstance(row.get("tags", []), list | tuple):
        raise BadInput(f"{place}: tags must be a list", hint='For example "tags": ["join"].', code="bad-row")


def _check_text(row: Row, place: str) -> None:
    """A row is written to evaluation.json and sent to the scorer: half of a surrogate pair has no bytes."""
    for name, value in row.items():
        try:
            json.dumps([name, value], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError as error:
            sign = ascii(str(error.object)[error.start])
            raise BadInput(
                f"{place}: the field {name!a} holds {sign}, half of a surrogate pair, not Unicode",
                hint="Remove it, or write the whole character.",
                code="bad-row",
            ) from None
        except (ValueError, RecursionError):
            raise BadInput(f"{place}: the field {name!a} is nested too deeply", code="bad-row") from None


def dotted(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
