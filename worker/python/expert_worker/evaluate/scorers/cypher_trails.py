"""Neo4j uses a relationship at most once in a MATCH. The engine does so where conditions ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from expert_worker.evaluate.scorers.cypher_tokens import KEYWORDS, Edit, Query, unused_names

# Each pair has a condition: 15 of one type have 105.
MOST_RELATIONSHIPS = 15
_CHAIN_END, _GROUP_END, _GROUP_START, _CHAIN_START = range(4)


@dataclass(frozen=True)
class _Relationship:
    """One of a pattern, as places of tokens."""

    # The bracket, or the dash after which one can be written.
    opening: int
    has_bracket: bool
    # Behind its last sign.
    end: int
    variable: str | None
    types: frozenset[str]
    # The star of one of variable length.
    star: int | None = None
    # The engine's own way to walk it, such as SHORTEST; Neo4j has no such words.
    has_mode: bool = False

    def may_equal(self, other: _Relationship) -> bool:
        """Also where one has no type."""
        return not self.types or not other.types or not self.types.isdisjoint(other.types)


@dataclass(frozen=True)
class Trails:
    text: str
    # Whether the engine may still use a relationship twice where Neo4j would not.
    is_partial: bool = False


def with_trails(query: Query) -> Trails:
    """The query with a condition for each pair of relationships that could be one."""
    groups = [*_matches(query), *_predicates(query)]
    names = iter(unused_names(query, "relationship", len(query)))
    edits: list[Edit] = []
    is_partial = False
    for group in groups:
        edits += _trail_edits(query, group.relationships)
        if len(group.relationships) > MOST_RELATIONSHIPS:
            is_partial = True
            continue
        found, named = _named(query, group.relationships, names)
        pairs = [pair for pair in combinations(found, 2) if _has_condition(pair)]
        # `RETURN *` would return the new variables too.
        if named and group.is_visible and _returns_all(query):
            is_partial = True
        elif pairs:
            edits += named
            edits += group.conditions(query, " AND ".join(_condition(*pair) for pair in pairs))
    return Trails(query.edited(edits) if edits else query.text, is_partial)


@dataclass(frozen=True)
class _Group:
    """The relationships that must differ: those of a MATCH, or of a pattern inside an expression."""

    relationships: Sequence[_Relationship]
    start: int
    # Behind the pattern; the place of WHERE where there is one.
    end: int
    is_match: bool
    # Whether RETURN sees its variables.
    is_visible: bool = False

    def conditions(self, query: Query, condition: str) -> Iterator[Edit]:
        last = query.tokens[self.end - 1].end
        if not self.is_match:
            first = query.tokens[self.start].start
            yield Edit(first, first, " EXISTS { MATCH ", _CHAIN_START)
            yield Edit(last, last, f" WHERE {condition} }}", _CHAIN_END)
        elif query.word(self.end) == "WHERE":
            where = query.tokens[self.end]
            closing = query.tokens[query.clause_end(self.end + 1, where.depth) - 1].end
            yield Edit(where.end, where.end, f" {condition} AND (", _GROUP_START)
            yield Edit(closing, closing, ")", _GROUP_END)
        else:
            yield Edit(last, last, f" WHERE {condition}", _GROUP_END)


def _matches(query: Query) -> Iterator[_Group]:
    for place, token in enumerate(query.tokens):
        if token.upper == "MATCH" and query.is_clause(place):
            end = query.clause_end(place + 1, token.depth)
            found = [
                relationship
                for other in range(place + 1, end)
                if query.tokens[other].depth == token.depth
                and query.sign(other) == ")"
                and (relationship := _relationship(query, other + 1)) is not None
            ]
            yield _Group(found, place + 1, end, is_match=True, is_visible=token.depth == 0)


def match_places(query: Query) -> set[int]:
    """Of the patterns of each MATCH."""
    return {place for group in _matches(query) for place in range(group.start, group.end)}


def _predicates(query: Query) -> Iterator[_Group]:
    """`WHERE (a)-[:KNOWS]-()-[:KNOWS]-()`: what begins with a node outside a MATCH."""
    inside = match_places(query)
    end = 0
    for place in range(len(query)):
        if place < end or place in inside or query.sign(place) != "(" or _is_call(query, place):
            continue
        # `EXISTS { (a)-->(b) }`, which `cypher_calls` gives a MATCH.
        if query.sign(place - 1) == "{":
            continue
        found = []
        node = query.closing.get(place)
        while node is not None and (relationship := _relationship(query, node + 1)) is not None:
            following = relationship.end
            if query.sign(following) != "(" or following not in query.closing:
                break
            found.append(relationship)
            node = query.closing[following]
        if found and node is not None:
            end = node + 1
            yield _Group(found, place, end, is_match=False)


def _is_call(query: Query, place: int) -> bool:
    return query.is_word(place - 1) and query.word(place - 1) not in KEYWORDS


def _relationship(query: Query, place: int) -> _Relationship | None:
    """The one that begins at a place, with `<` or a dash."""
    place += query.sign(place) == "<"
    if query.sign(place) != "-":
        return None
    has_bracket = query.sign(place + 1) == "["
    closing = query.closing.get(place + 1) if has_bracket else place
    if closing is None or query.sign(closing + 1) != "-":
        return None
    end = closing + 2 + (query.sign(closing + 2) == ">")
    plain = _Relationship(place, has_bracket, end, None, frozenset())
    return _described(query, replace(plain, opening=place + 1), closing) if has_bracket else plain


def _described(query: Query, plain: _Relationship, closing: int) -> _Relationship:
    """With its variable, types and length."""
    first = plain.opening + 1
    own = [it for it in range(first, closing) if query.tokens[it].depth == query.tokens[first].depth]
    types = (it for it in own if query.is_word(it) and query.sign(it - 1) in {":", "|"})
    star = next((it for it in own if query.sign(it) == "*"), None)
    return replace(
        plain,
        variable=query.sign(first) if query.is_word(first) else None,
        types=frozenset(query.sign(it) for it in types),
        star=star,
        has_mode=star is not None and query.is_word(star + 1),
    )


def _named(
    query: Query, relationships: Sequence[_Relationship], names: Iterator[str]
) -> tuple[list[_Relationship], list[Edit]]:
    """With a variable for each that takes part in a condition."""
    found, edits = [], []
    for it in relationships:
        pairs = [(it, other) for other in relationships if other is not it]
        if it.variable is not None or not any(map(_has_condition, pairs)):
            found.append(it)
            continue
        found.append(replace(it, variable=next(names)))
        place = query.tokens[it.opening].end
        name = f"{found[-1].variable}"
        edits.append(Edit(place, place, name if it.has_bracket else f"[{name}]"))
    return found, edits


def _has_condition(pair: tuple[_Relationship, _Relationship]) -> bool:
    left, right = pair
    is_twice = left.variable is not None and left.variable == right.variable
    return left.may_equal(right) and not is_twice and not left.has_mode and not right.has_mode


def _trail_edits(query: Query, relationships: Sequence[_Relationship]) -> Iterator[Edit]:
    """The engine's word for a walk that uses no relationship twice."""
    for relationship in relationships:
        if relationship.star is not None and not relationship.has_mode:
            place = query.tokens[relationship.star].end
            yield Edit(place, place, " TRAIL ")


def _condition(left: _Relationship, right: _Relationship) -> str:
    if left.star is None and right.star is None:
        return f"id({left.variable}) <> id({right.variable})"
    if left.star is not None and right.star is not None:
        return f"NOT list_has_any({_ids(left)}, {_ids(right)})"
    one, several = (left, right) if left.star is None else (right, left)
    return f"NOT list_contains({_ids(several)}, id({one.variable}))"


def _ids(relationship: _Relationship) -> str:
    """Lists of relationships themselves can only be compared where their types are the same."""
    return f"properties(rels({relationship.variable}), '_id')"


def _returns_all(query: Query) -> bool:
    """`RETURN *`, `WITH DISTINCT *`."""
    return any(
        query.sign(place) == "*"
        and query.word(place - 1) in {"RETURN", "DISTINCT"}
        and query.tokens[place].depth == 0
        for place in range(1, len(query))
    )
