"""The case of labels, types, properties and variables, which Neo4j distinguishes and the engine ignores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from expert_worker.evaluate.scorers.cypher_tokens import KEYWORDS, Edit, Query, unused_names

# The key that each node has; Neo4j has a function of that name.
_HIDDEN = "id"


@dataclass(frozen=True)
class Names:
    """The positions in a query at which names stand."""

    labels: tuple[int, ...]
    types: tuple[int, ...]
    properties: tuple[int, ...]
    variables: tuple[int, ...]
    # Keys of maps that the query builds.
    keys: tuple[int, ...]


def names_of(query: Query) -> Names:
    found: dict[str, list[int]] = {
        kind: [] for kind in ("labels", "types", "properties", "variables", "keys")
    }
    alternatives: set[int] = set()
    for place, token in enumerate(query.tokens):
        if not token.is_word:
            continue
        kind = _kind(query, place, alternatives)
        if kind in {"labels", "types"}:
            alternatives.add(place)
        if kind:
            found[kind].append(place)
    return Names(**{kind: tuple(places) for kind, places in found.items()})


def _kind(query: Query, place: int, alternatives: set[int]) -> str | None:
    """What a word names; None for a keyword, a function and its namespace."""
    before, after = query.sign(place - 1), query.sign(place + 1)
    if before == ".":
        return None if after == "(" else "properties"
    if _is_label(query, place, alternatives):
        return "types" if query.sign(query.around[place]) == "[" else "labels"
    if _is_key(query, place):
        return "properties" if _is_of_pattern(query, query.around[place]) else "keys"
    is_namespace = after == "." and query.is_word(place + 2) and query.sign(place + 3) == "("
    if after == "(" or is_namespace or query.word(place) in KEYWORDS:
        return None
    return "variables"


def _is_label(query: Query, place: int, alternatives: set[int]) -> bool:
    """After the colon of a node or a relationship, or after `|` or `&` behind another label."""
    before = query.sign(place - 1)
    if before == "!":
        return query.sign(place - 2) in {":", "|", "&"}
    if before in {"|", "&"}:
        return place - 2 in alternatives
    around = query.around[place]
    is_slice = query.sign(around) == "[" and around is not None and query.sign(around - 1) != "-"
    return before == ":" and not is_slice and not _is_key(query, place - 2)


def _is_key(query: Query, place: int) -> bool:
    """`{key: 1}`."""
    return (
        query.sign(place + 1) == ":"
        and query.sign(place - 1) in {"{", ","}
        and query.sign(query.around[place]) == "{"
    )


def _is_of_pattern(query: Query, brace: int | None) -> bool:
    """Whether a map is that of a node or a relationship, which is right behind its names."""
    outer = None if brace is None else query.around[brace]
    if brace is None or outer is None or any(query.sign(it) == "," for it in range(outer, brace)):
        return False
    if query.sign(outer) == "[":
        return query.sign(outer - 1) == "-"
    is_call = query.is_word(outer - 1) and query.word(outer - 1) not in KEYWORDS
    return query.sign(outer) == "(" and not is_call and query.sign(brace - 1) not in {"+", "=", ":"}


def misspelled(query: Query, graph: Mapping[str, Any]) -> str | None:
    """Why a name of the query is none of the graph, where one of the graph differs from it in case alone."""
    found = names_of(query)
    nodes, edges = graph["nodes"], graph["edges"]
    columns = {str(column[0]) for owner in (*nodes, *edges) for column in owner["columns"]}
    keys = {query.sign(place) for place in found.keys}
    wrong = chain(
        _others(query, found.labels, "label", (node["label"] for node in nodes)),
        _others(query, found.types, "relationship type", (edge["type"] for edge in edges)),
        _others(query, found.properties, "property", {*columns, *keys, _HIDDEN}),
    )
    return next(wrong, None)


def _others(query: Query, places: Iterable[int], kind: str, names: Iterable[str]) -> Iterator[str]:
    known = set(names)
    by_case = {name.casefold(): name for name in sorted(known)}
    for name in (query.sign(place) for place in places):
        if name not in known and name.casefold() in by_case:
            yield f"there is no {kind} {name}, only {by_case[name.casefold()]}"


def with_distinct_variables(query: Query) -> tuple[str, dict[str, str]]:
    """The query with other names for variables that another one equals except for its case, and what each
    of these was called: in Neo4j `p` and `P` are two."""
    places = names_of(query).variables
    forms: dict[str, dict[str, None]] = {}
    for place in places:
        forms.setdefault(query.sign(place).casefold(), {})[query.sign(place)] = None
    others = [form for same in forms.values() for form in list(same)[1:]]
    renamed = {form: unused_names(query, form, 1 + place)[place] for place, form in enumerate(others)}
    edits = [
        Edit(token.start, token.end, renamed[token.text])
        for token in (query.tokens[place] for place in places)
        if token.text in renamed
    ]
    return query.edited(edits), {new: old for old, new in renamed.items()}
