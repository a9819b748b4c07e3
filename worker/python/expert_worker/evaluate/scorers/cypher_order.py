"""The order of a Cypher query: whether its last RETURN has one, and the same rows with their sort keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from expert_worker.evaluate.answer import SETS, Language, Piece
from expert_worker.evaluate.scorers.sort_order import Order, further_columns, sort_keys, split

_SKIP = re.compile(r"\s*(?:SKIP\s+(\d+)\s*)?(?:LIMIT\s+\d+\s*)?", re.IGNORECASE)


def order_of(query: str, language: Language) -> Order | None:
    """None where the query as a whole has no order; one before its last RETURN only chooses."""
    pieces = [piece for piece in language.pieces(query) if piece.text]
    last = max((place for place, piece in enumerate(pieces) if piece.word == "RETURN"), default=len(pieces))
    outer = [piece for piece in pieces[last:] if not piece.depth]
    words = [piece.word for piece in outer]
    by = next((place for place, pair in enumerate(pairwise(words)) if pair == ("ORDER", "BY")), None)
    if by is None:
        return None
    end = next((piece.start for piece in outer[by:] if piece.word in {"SKIP", "LIMIT"}), len(query))
    skipped = _SKIP.fullmatch(query[end:])
    is_one = not SETS & {piece.word for piece in pieces}
    return Order(
        _with_keys(query, by, outer, end) if is_one else None, int(skipped[1] or 0) if skipped else None
    )


def _with_keys(query: str, by: int, outer: Sequence[Piece], end: int) -> str | None:
    words = [piece.word for piece in outer]
    is_distinct = words[1] == "DISTINCT"
    begins, order = outer[int(is_distinct)].end, outer[by].start
    columns = list(split(query, outer, begins, order))
    keys = sort_keys(query, outer, outer[by + 1].end, end)
    added = further_columns(columns, keys, is_distinct=is_distinct, by_place=False)
    return None if added is None else f"{query[:order]}, {', '.join(added)} {query[order:end]}"
