"""The order of a SQL statement: whether it has one, and the same rows with their sort keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from expert_worker.evaluate.answer import SETS, SQL, Piece

_DIRECTION = re.compile(r"\s+(?:ASC|DESC)?(?:\s*NULLS\s+(?:FIRST|LAST))?\s*$", re.IGNORECASE)
_LIMIT = re.compile(r"LIMIT\s+(\d+)(?:\s+OFFSET\s+(\d+)|\s*,\s*(\d+))?\s*$", re.IGNORECASE)
# With and without AS.
_ALIAS = re.compile(r"(?:\s+AS|(?<=[\w)\"'`\]]))\s+(\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|\w+)\s*$", re.IGNORECASE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Order:
    # Without its limit, with a further column for each sort key; None where that cannot be written.
    with_keys: str | None
    # Rows before the first that is returned; None where it is not a plain number.
    skipped: int | None


def order_of(statement: str) -> Order | None:
    """None where the statement as a whole has no order."""
    outer = [piece for piece in SQL.pieces(statement) if piece.text and not piece.depth]
    words = [piece.word for piece in outer]
    # `OVER (... ORDER BY ...)` and subqueries are inside parentheses.
    begins = [place for place, pair in enumerate(pairwise(words)) if pair == ("ORDER", "BY")]
    if not begins:
        return None
    by = begins[-1]
    limit = next((piece.start for piece in outer[by:] if piece.word == "LIMIT"), len(statement))
    keys = [
        _DIRECTION.sub("", f"{key} ").strip() for key in _split(statement, outer, outer[by + 1].end, limit)
    ]
    return Order(
        _with_keys(statement[: outer[by].start], outer[:by], keys, statement[outer[by].start : limit]),
        _skipped(statement[limit:]),
    )


def _skipped(limit: str) -> int | None:
    if not limit.strip():
        return 0
    found = _LIMIT.match(limit.strip())
    if found is None:
        return None
    # `LIMIT 5, 10` skips five rows.
    return int(found[1]) if found[3] is not None else int(found[2] or 0)


def _with_keys(body: str, outer: Sequence[Piece], keys: Sequence[str], order: str) -> str | None:
    """A sort key that names a result column is that column, by place or name; the others are added."""
    words = [piece.word for piece in outer]
    if SETS & set(words) or "SELECT" not in words:
        return None
    select = words.index("SELECT")
    end = next((piece.start for piece in outer[select:] if piece.word == "FROM"), None)
    if end is None:
        return None
    columns = list(_split(body, outer, outer[select].end, end))
    is_distinct = select + 1 < len(words) and words[select + 1] == "DISTINCT"
    if is_distinct:
        columns[0] = columns[0].strip()[len("DISTINCT") :]
    named = {_name(column): _expression(column) for column in reversed(columns)}
    added = []
    for key in keys:
        if key.isdigit():
            if not 1 <= int(key) <= len(columns) or any(column.endswith("*") for column in columns):
                return None
            added.append(_expression(columns[int(key) - 1]))
        elif _plain(key) in named:
            added.append(named[_plain(key)])
        elif is_distinct or any(_plain(word[0]) in named for word in _WORD.finditer(key)):
            # A further column would make other rows, or would read another column of that name.
            return None
        else:
            added.append(key)
    return f"{body[:end]}, {', '.join(added)} {body[end:]}{order}"


def _name(column: str) -> str:
    """What an ORDER BY may call it: its alias, else its text."""
    alias = _ALIAS.search(column)
    return _plain(alias[1] if alias else column)


def _expression(column: str) -> str:
    return _ALIAS.sub("", column).strip()


def _plain(name: str) -> str:
    return name.strip().strip('"`[]').casefold()


def _split(text: str, outer: Sequence[Piece], start: int, end: int) -> Iterator[str]:
    """The parts between commas outside parentheses."""
    for piece in outer:
        if piece.text == "," and start <= piece.start < end:
            yield text[start : piece.start].strip()
            start = piece.end
    yield text[start:end].strip()
