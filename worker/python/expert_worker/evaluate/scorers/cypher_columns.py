"""What the columns of a Cypher query are computed from: lists of `collect` have no order, others have one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from expert_worker.evaluate.scorers.cypher_tokens import Query

_PAGE = frozenset({"ORDER", "SKIP", "LIMIT"})


@dataclass(frozen=True)
class Columns:
    """The functions in small letters by column, those of the variables in it among them."""

    by_place: Sequence[frozenset[str]]
    # Of the whole query, for columns that it does not write out (`RETURN *`).
    all: frozenset[str]

    def calls(self, function: str, place: int, width: int) -> bool:
        """Whether a column of a row with `width` columns calls it."""
        return function in (self.by_place[place] if width == len(self.by_place) else self.all)


def columns_of(text: str) -> Columns:
    query = Query(text)
    returned: list[frozenset[str]] = []
    variables: dict[str, frozenset[str]] = {}
    for place, token in enumerate(query.tokens):
        if token.depth or not query.is_clause(place):
            continue
        if token.upper == "UNWIND":
            # An element of a collected list has not been collected itself.
            variables.pop(query.sign(query.clause_end(place + 1, 0) - 1), None)
        if token.upper not in {"WITH", "RETURN"}:
            continue
        items = list(_items(query, place + 1))
        functions = [_functions(query, item, variables) for item in items]
        variables |= {
            query.sign(item[-1]): calls for item, calls in zip(items, functions, strict=True) if item
        }
        if token.upper == "RETURN":
            # The parts of a UNION have the same columns.
            same = len(returned) == len(functions)
            returned = (
                [left | right for left, right in zip(returned, functions, strict=True)] if same else functions
            )
    star = any(query.word(place - 1) in {"RETURN", "DISTINCT", "WITH"} for place in _stars(query))
    return Columns([] if star else returned, _functions(query, range(len(query)), {}))


def _stars(query: Query) -> Iterator[int]:
    return (place for place, token in enumerate(query.tokens) if token.text == "*" and not token.depth)


def _items(query: Query, start: int) -> Iterator[Sequence[int]]:
    """The places of each item's tokens."""
    start += query.word(start) == "DISTINCT"
    end = query.clause_end(start, 0)
    outer = [place for place in range(start, end) if not query.tokens[place].depth]
    end = next((place for place in outer if query.word(place) in _PAGE and query.sign(place - 1) != "."), end)
    commas = [place for place in outer if query.sign(place) == "," and place < end]
    for first, last in zip([start, *(comma + 1 for comma in commas)], [*commas, end], strict=True):
        yield range(first, last)


def _functions(query: Query, places: Sequence[int], variables: dict[str, frozenset[str]]) -> frozenset[str]:
    called = {query.sign(it).lower() for it in places if query.is_word(it) and query.sign(it + 1) == "("}
    named = (query.sign(it) for it in places if query.sign(it - 1) != ".")
    return frozenset(called).union(*(variables[name] for name in named if name in variables))
