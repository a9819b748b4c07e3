"""Forms of Neo4j's Cypher that the engine does not know or reads otherwise, in the engine's words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from expert_worker.evaluate.scorers.cypher_names import names_of
from expert_worker.evaluate.scorers.cypher_tokens import KEYWORDS, Edit, Query, unused_names
from expert_worker.evaluate.scorers.cypher_trails import match_places

# The hidden key of each node counts from 0.
_NO_NODE = "id: -1"
_QUANTIFIERS = frozenset({"ALL", "ANY", "NONE", "SINGLE"})


def with_own_list_variables(query: Query) -> tuple[str, dict[str, str]]:
    """The query with another name for the variable `x` of `[x IN list | x]` where `x` is also one outside,
    and what each of these was called: the engine lets no variable hide another one."""
    scopes: dict[str, list[range]] = defaultdict(list)
    for variable, opening, scope in _scopes(query):
        scopes[variable] += [range(opening + 1, opening + 2), scope]
    places = [place for place in names_of(query).variables if query.sign(place) in scopes]
    depths = {place: sum(place in scope for scope in scopes[query.sign(place)]) for place in places}
    outside = {query.sign(place) for place, depth in depths.items() if depth == 0}
    edits, renamed = [], {}
    for place, depth in depths.items():
        name = query.sign(place)
        hides = depth if name in outside else depth - 1
        if hides > 0:
            # By depth, so that equal expressions stay equal: RETURN and ORDER BY may have the same one.
            new = unused_names(query, name, hides)[-1]
            edits.append(Edit(query.tokens[place].start, query.tokens[place].end, new))
            renamed[new] = name
    return query.edited(edits), renamed


def _scopes(query: Query) -> Iterator[tuple[str, int, range]]:
    """Each variable of a list with its bracket and the places that see it, which those of the list do not."""
    for opening, closing in query.closing.items():
        if _has_own_variable(query, opening):
            found = [place for place in _where_and_bar(query, opening) if place is not None]
            yield query.sign(opening + 1), opening, range(min(found, default=closing), closing)


def in_engine_forms(query: Query) -> str:
    """`(n:A:B)`, which the engine reads as A or B, conditions such as `n:A`, and `[x IN list | x]`."""
    comprehensions = list(_comprehensions(query))
    bars = {bar for _, _, bar in comprehensions if bar is not None}
    edits = chain(_label_edits(query, bars), *(_listed(query, *it) for it in comprehensions))
    return query.edited(list(edits))


def _label_edits(query: Query, bars: set[int]) -> Iterator[Edit]:
    matched, end = match_places(query), 0
    for place in range(len(query)):
        if place < end or query.sign(place) != ":" or not _is_before_labels(query, place):
            continue
        names, signs, end = _labels(query, place, bars)
        # Of labels that are joined in several ways, some are in brackets or negated.
        if not names or len(signs) > 1 or (end not in bars and query.sign(end) in {":", "&", "|", "("}):
            continue
        sign = next(iter(signs), "&")
        if _is_node(query, place, matched):
            yield from _all_of_node(query, place, names, sign)
        elif query.is_word(place - 1) and query.word(place - 1) not in KEYWORDS:
            yield _condition(query, place, names, sign)


def _is_before_labels(query: Query, place: int) -> bool:
    """Not that of a map, a slice or a relationship."""
    around = query.around[place]
    opening = query.sign(around)
    if around is not None and around not in query.closing:
        return False
    if opening == "{" and query.sign(place - 2) in {"{", ","}:
        return False
    return opening != "[" or (around is not None and _is_comprehension(query, around))


def _labels(query: Query, place: int, bars: set[int]) -> tuple[list[str], set[str], int]:
    """From the colon on, with the signs that join them and the place behind them."""
    found: list[str] = []
    signs: set[str] = set()
    while place not in bars and query.sign(place) in {":", "&", "|"} and query.is_word(place + 1):
        if found:
            signs.add("|" if query.sign(place) == "|" else "&")
        found.append(query.sign(place + 1))
        place += 2
    return found, signs, place


def _is_node(query: Query, place: int, matched: set[int]) -> bool:
    """Of a pattern. Outside a MATCH a node has a relationship beside it: `WHERE (a:Person)-[:KNOWS]->()`."""
    opening = query.around[place]
    if opening is None or query.sign(opening) != "(" or opening not in query.closing:
        return False
    is_first = place == opening + 1 or (place == opening + 2 and query.is_word(opening + 1))
    is_beside = query.sign(query.closing[opening] + 1) in {"-", "<"} or query.sign(opening - 1) in {"-", ">"}
    return is_first and (opening in matched or is_beside)


def _all_of_node(query: Query, place: int, names: list[str], sign: str) -> Iterator[Edit]:
    """A node here has one label, so none has two."""
    if sign == "|" or len(names) < 2:
        return
    last = place + 2 * len(names) - 1
    yield Edit(query.tokens[place + 1].end, query.tokens[last].end, "")
    if len(set(names)) < 2:
        return
    end = query.tokens[last].end
    if query.sign(last + 1) != "{":
        yield Edit(end, end, f" {{{_NO_NODE}}}", rank=1)
        return
    inside = query.tokens[last + 1].end
    yield Edit(inside, inside, _NO_NODE if query.sign(last + 2) == "}" else f"{_NO_NODE}, ")


def _condition(query: Query, place: int, names: list[str], sign: str) -> Edit:
    """Null where the variable is: the engine's `label` gives one to null too. Without CASE, because it
    computes one that is the condition of another one wrongly."""
    variable = query.sign(place - 1)
    word = " OR " if sign == "|" else " AND "
    each = word.join(f"label({variable}) = '{name}'" for name in names)
    if len(names) > 1:
        each = f"({each})"
    start, end = query.tokens[place - 1].start, query.tokens[place + 2 * len(names) - 1].end
    return Edit(start, end, f"({each} AND ({variable} IS NOT NULL OR NULL))")


def _is_comprehension(query: Query, opening: int) -> bool:
    return query.sign(opening) == "[" and _has_own_variable(query, opening)


def _has_own_variable(query: Query, opening: int) -> bool:
    """`[x IN list | x]`, `any(x IN list WHERE x)`."""
    is_start = query.sign(opening) == "[" or query.word(opening - 1) in _QUANTIFIERS
    return is_start and query.is_word(opening + 1) and query.word(opening + 2) == "IN"


def _comprehensions(query: Query) -> Iterator[tuple[int, int | None, int | None]]:
    """The places of the bracket, of WHERE and of the bar. `[x IN list]` alone is a list of one condition to
    the engine, and to Neo4j the list itself."""
    for opening in query.closing:
        if _is_comprehension(query, opening):
            yield opening, *_where_and_bar(query, opening)


def _where_and_bar(query: Query, opening: int) -> tuple[int | None, int | None]:
    own = [place for place in range(opening + 3, query.closing[opening]) if query.around[place] == opening]
    where = next((place for place in own if query.word(place) == "WHERE"), None)
    bar = next((place for place in reversed(own) if query.sign(place) == "|"), None)
    return where, bar


def _listed(query: Query, opening: int, where: int | None, bar: int | None) -> Iterator[Edit]:
    tokens, variable = query.tokens, query.sign(opening + 1)
    calls = ("list_transform(" if bar is not None else "") + ("list_filter(" if where is not None else "")
    yield Edit(tokens[opening].start, tokens[opening + 2].end, calls or "(")
    if where is not None:
        yield Edit(tokens[where].start, tokens[where].end, f", {variable} -> ")
    if bar is not None:
        before = ")" if where is not None else ""
        yield Edit(tokens[bar].start, tokens[bar].end, f"{before}, {variable} -> ")
    closing = tokens[query.closing[opening]]
    yield Edit(closing.start, closing.end, ")")
