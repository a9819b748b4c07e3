"""The order of a SQL statement: whether it has one, and the same rows with their sort keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from expert_worker.evaluate.answer import SETS, SQL, Piece
from expert_worker.evaluate.scorers.sort_order import Order, further_columns, sort_keys, split

_LIMIT = re.compile(r"LIMIT\s+(\d+)(?:\s+OFFSET\s+(\d+)|\s*,\s*(\d+))?\s*$", re.IGNORECASE)


def has_order(statement: str) -> bool:
    """Whether it orders anything, be it a part of it."""
    words = [piece.word for piece in SQL.pieces(SQL.uncommented(statement)) if piece.text]
    return ("ORDER", "BY") in pairwise(words)


def order_of(statement: str) -> Order | None:
    """None where the statement as a whole has no order."""
    statement = SQL.uncommented(statement)
    outer = [piece for piece in SQL.pieces(statement) if piece.text and not piece.depth]
    words = [piece.word for piece in outer]
    # `OVER (... ORDER BY ...)` and subqueries are inside parentheses.
    begins = [place for place, pair in enumerate(pairwise(words)) if pair == ("ORDER", "BY")]
    if not begins:
        return None
    by = begins[-1]
    limit = next((piece.start for piece in outer[by:] if piece.word == "LIMIT"), len(statement))
    keys = sort_keys(statement, outer, outer[by + 1].end, limit)
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
    words = [piece.word for piece in outer]
    if SETS & set(words) or "SELECT" not in words:
        return None
    select = words.index("SELECT")
    end = next((piece.start for piece in outer[select:] if piece.word == "FROM"), None)
    if end is None:
        return None
    columns = list(split(body, outer, outer[select].end, end))
    is_distinct = select + 1 < len(words) and words[select + 1] == "DISTINCT"
    if is_distinct:
        columns[0] = columns[0].strip()[len("DISTINCT") :]
    added = further_columns(columns, keys, is_distinct=is_distinct, by_place=True)
    return None if added is None else f"{body[:end]}, {', '.join(added)} {body[end:]}{order}"
