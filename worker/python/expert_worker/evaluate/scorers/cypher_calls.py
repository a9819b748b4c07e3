"""Functions, places in lists and parts of dates of Neo4j's Cypher in the engine's words.

The engine counts the characters of a text and the parts of a list from 1, and fails where a list has no such
part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from expert_worker.evaluate.scorers.cypher_names import names_of
from expert_worker.evaluate.scorers.cypher_tokens import KEYWORDS, Edit, Query

# A list is written twice for each of its places, so the query grows with each.
_MOST_CHARACTERS, _MOST_EDITS = 12_000, 30
_NO_END = 1_000_000
_NAMES = {
    "TYPE": "label",
    "SPLIT": "string_split",
    "STARTNODE": "start_node",
    "ENDNODE": "end_node",
}
# What stands before and behind the one argument.
_AROUND = {
    "LABELS": ("[label(", ")]"),
    "TOSTRING": ("CAST(", " AS STRING)"),
    "TOFLOAT": ("CAST(", " AS DOUBLE)"),
    # Halves upwards.
    "ROUND": ("floor((", ") + 0.5)"),
    "ISEMPTY": ("(size(", ") = 0)"),
    "HEAD": ("(", ")[0]"),
    "LAST": ("(", ")[-1]"),
    "TAIL": ("(", ")[1..]"),
}
_PARTS_OF_DATES = frozenset({"year", "quarter", "month", "week", "day"})


def in_engine_calls(query: Query) -> str:
    for edits in (_call_edits, _date_edits, _slice_edits):
        query = Query(query.edited(list(edits(query))))
    for rewritten in (_whole_number, _listed):
        query = _each(query, rewritten)
    return query.text


def _each(query: Query, rewritten: Callable[[Query, int], Edit | None]) -> Query:
    """From the inside out, in the order in which brackets close."""
    for _ in range(_MOST_EDITS):
        edits = (rewritten(query, opening) for opening in query.closing)
        edit = next((it for it in edits if it is not None), None)
        if edit is None or len(query.text) > _MOST_CHARACTERS:
            break
        query = Query(query.edited([edit]))
    return query


def _is_call(query: Query, place: int) -> bool:
    return query.is_word(place) and place + 1 in query.closing and query.sign(place - 1) not in {".", ":"}


def _arguments(query: Query, opening: int) -> list[tuple[int, int]]:
    """The places of each, and those behind them."""
    closing = query.closing[opening]
    commas = [it for it in range(opening, closing) if query.sign(it) == "," and query.around[it] == opening]
    bounds = [opening, *commas, closing]
    found = [(start + 1, end) for start, end in pairwise(bounds)]
    return [] if found == [(closing, closing)] else found


def _call_edits(query: Query) -> Iterator[Edit]:
    for place, token in enumerate(query.tokens):
        word, opening = token.upper, place + 1
        if word in {"EXISTS", "COUNT"} and query.sign(opening) == "{" and query.sign(place + 2) == "(":
            yield Edit(query.tokens[opening].end, query.tokens[opening].end, " MATCH ")
        if query.sign(opening) != "(" or not _is_call(query, place):
            continue
        arguments = _arguments(query, opening)
        closing = query.tokens[query.closing[opening]]
        if word in _NAMES:
            yield Edit(token.start, token.end, _NAMES[word])
        elif word in _AROUND and len(arguments) == 1:
            before, behind = _AROUND[word]
            yield Edit(token.start, query.tokens[opening].end, before)
            yield Edit(closing.start, closing.end, behind)
        elif word == "SUBSTRING" and len(arguments) in {2, 3}:
            yield from _counted_from_one(query, *arguments[1])
            if len(arguments) == 2:
                yield Edit(closing.start, closing.start, f", {_NO_END}", rank=2)


def _counted_from_one(query: Query, start: int, end: int) -> Iterator[Edit]:
    first, last = query.tokens[start].start, query.tokens[end - 1].end
    if end == start + 1 and query.sign(start).isdecimal():
        yield Edit(first, last, str(int(query.sign(start)) + 1))
    elif query.sign(start) != "-":
        yield Edit(first, first, "(", rank=-1)
        yield Edit(last, last, ") + 1", rank=1)


def _date_edits(query: Query) -> Iterator[Edit]:
    """`p.born.year`"""
    built = {query.sign(place) for place in names_of(query).keys}
    for place in range(len(query)):
        part = query.sign(place + 4)
        is_chain = all(query.is_word(place + it) for it in (0, 2)) and query.sign(place + 1) == "."
        is_part = query.sign(place + 3) == "." and part in _PARTS_OF_DATES and part not in built
        if is_chain and is_part and query.sign(place - 1) != "." and query.sign(place + 5) not in {"(", "."}:
            first, last = query.tokens[place].start, query.tokens[place + 2].end
            yield Edit(first, first, f"date_part('{part}', ")
            yield Edit(last, query.tokens[place + 4].end, ")")


def _is_place(query: Query, opening: int) -> bool:
    """Whether this bracket is that of a part of a list: `names[0]`, `collect(p.name)[0..3]`, not `[1, 2]`."""
    if query.sign(opening) != "[" or opening not in query.closing or opening + 1 == query.closing[opening]:
        return False
    before = query.sign(opening - 1)
    is_name = query.is_word(opening - 1) and (
        query.word(opening - 1) not in KEYWORDS or query.sign(opening - 2) == "."
    )
    return is_name or before in {"]", ")"}


def _dots(query: Query, opening: int) -> int | None:
    """The place of the two dots of a slice."""
    inside = range(opening + 1, query.closing[opening])
    return next((it for it in inside if query.sign(it) == query.sign(it + 1) == "."), None)


def _slice_edits(query: Query) -> Iterator[Edit]:
    """The end of Neo4j is behind the last part, and that of the engine is the last part."""
    for opening, closing in query.closing.items():
        dots = _dots(query, opening) if _is_place(query, opening) else None
        if dots is None:
            continue
        if dots > opening + 1:
            yield from _counted_from_one(query, opening + 1, dots)
        if query.sign(dots + 2) == "-" and query.sign(dots + 3).isdecimal() and dots + 4 == closing:
            token = query.tokens[dots + 3]
            yield Edit(token.start, token.end, str(int(token.text) + 1))


def _whole_number(query: Query, opening: int) -> Edit | None:
    """`toInteger(x)` leaves the fraction out, where the engine rounds."""
    place, closing = opening - 1, query.closing[opening]
    is_call = query.sign(opening) == "(" and _is_call(query, place)
    if query.word(place) != "TOINTEGER" or not is_call or closing == opening + 1:
        return None
    number = f"CAST({query.text_of(opening + 1, closing)} AS DOUBLE)"
    whole = f"CAST({number} - {number} % 1 AS INT64)"
    return Edit(query.tokens[place].start, query.tokens[closing].end, whole)


def _listed(query: Query, opening: int) -> Edit | None:
    """`names[0]`: null where there is none. Without CASE, see `cypher_forms._condition`."""
    if not _is_place(query, opening) or _dots(query, opening) is not None:
        return None
    inside, closing = range(opening + 1, query.closing[opening]), query.closing[opening]
    is_key = query.sign(opening + 1)[0] in {"'", '"'}
    # That of a slice as the engine writes it.
    is_slice = any(query.sign(it) == ":" and query.around[it] == opening for it in inside)
    if is_key or is_slice:
        return None
    start = _start(query, opening)
    place = query.text_of(opening + 1, closing)
    is_negative = query.sign(opening + 1) == "-"
    if not is_negative:
        place = str(int(place) + 1) if place.isdecimal() else f"({place}) + 1"
    one = f"list_slice({query.text_of(start, opening)}, {place}, {place})"
    return Edit(
        query.tokens[start].start, query.tokens[closing].end, f"list_extract({one}, nullif(size({one}), 0))"
    )


def _start(query: Query, opening: int) -> int:
    """Where the list begins that the bracket is a part of."""
    openings = {closing: place for place, closing in query.closing.items()}
    place = opening - 1
    while True:
        if place in openings:
            place = openings[place]
            is_named = query.is_word(place - 1) and query.word(place - 1) not in KEYWORDS
            has_list = query.sign(place) == "[" and (is_named or place - 1 in openings)
            if (query.sign(place) == "(" and is_named) or has_list:
                place -= 1
                continue
        if query.sign(place - 1) != ".":
            return place
        place -= 2
