"""Comparisons of values of different types: the engine converts texts, which Neo4j does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from expert_worker.evaluate.scorers.cypher_data import type_of
from expert_worker.evaluate.scorers.cypher_names import Names, names_of
from expert_worker.evaluate.scorers.cypher_tokens import KEYWORDS, Query

_TEXT, _NUMBER, _BOOLEAN, _DATE = "a text", "a number", "true or false", "a date"
_KINDS = {"STRING": _TEXT, "INT64": _NUMBER, "DOUBLE": _NUMBER, "BOOLEAN": _BOOLEAN, "DATE": _DATE}
# What stands beside an operand that is only a part of a longer one: `1 + p.age`, `p.names[0]`.
_JOINS_BEFORE = frozenset({"+", "-", "*", "/", "%", "^", "."})
_JOINS_BEHIND = _JOINS_BEFORE | {"[", ":"}
_NUMBERS = "COUNT SUM AVG SIZE LENGTH ABS ROUND FLOOR CEIL SQRT TOINTEGER TOFLOAT".split()  # noqa: SIM905
_TEXTS = "TOSTRING TOLOWER TOUPPER TRIM SUBSTRING LEFT RIGHT TYPE".split()  # noqa: SIM905
_CALLS = {**dict.fromkeys(_NUMBERS, _NUMBER), **dict.fromkeys(_TEXTS, _TEXT), "DATE": _DATE}
_PARTS_OF_DATES = frozenset({"year", "quarter", "month", "week", "day"})


@dataclass(frozen=True)
class _Operand:
    """A literal, a property, a column with another name or a call, and the place behind it."""

    text: str
    end: int
    kind: str


def mistyped(query: Query, graph: Mapping[str, Any]) -> str | None:
    """Why a comparison finds nothing in Neo4j, where both sides are known to be of different types."""
    return next(_differences(query, _Operands(query, graph)), None)


def _differences(query: Query, operands: _Operands) -> Iterator[str]:
    names = operands.names
    for place in names.properties:
        if query.sign(place + 1) == ":":
            kind, value = operands.kind_of(place, None), operands.at(place + 2)
            if kind and value and value.kind != kind:
                yield _reason(query.sign(place), kind, value.text, value.kind)
    for place in range(len(query)):
        end = _behind_comparison(query, place)
        if end is None:
            continue
        left, right = operands.before(place), operands.at(end)
        if left and right and left.kind != right.kind:
            yield _reason(left.text, left.kind, right.text, right.kind)
        elif query.is_word(place) or query.sign(end - 1) == "~":
            other = next((it for it in (left, right) if it and it.kind != _TEXT), None)
            if other:
                yield f"{other.text} is {other.kind}, and {query.text_of(place, end)} takes texts only"


def _reason(left: str, left_kind: str, right: str, right_kind: str) -> str:
    return f"{left} is {left_kind} and {right} is {right_kind}: Neo4j converts neither"


def _behind_comparison(query: Query, place: int) -> int | None:
    """The place behind the operator that begins here; None where none does."""
    if query.word(place) in {"STARTS", "ENDS"} and query.word(place + 1) == "WITH":
        return place + 2
    if query.word(place) == "CONTAINS" and query.sign(place - 1) != ".":
        return place + 1
    if query.sign(place) not in {"=", "<", ">"} or query.sign(place - 1) in {"=", "<", ">", "-"}:
        return None
    end = place + 1
    while query.sign(end) in {"=", ">", "~"}:
        end += 1
    return end


class _Operands:
    def __init__(self, query: Query, graph: Mapping[str, Any]) -> None:
        self._query = query
        self.names = names_of(query)
        self._columns = _columns(graph)
        self._owners = _owners(query, self.names)
        self._built = {query.sign(place) for place in self.names.keys}
        self._aliases: dict[str, str | None] = {}
        self._by_end: dict[int, tuple[int, _Operand]] = {}
        for place in range(len(query)):
            found = self._read(place)
            if found:
                self._by_end[found.end] = place, found
            elif query.word(place) == "AS" and query.is_word(place + 1):
                self._name(place)

    def _name(self, place: int) -> None:
        """`WITH m.released AS r`: what two columns are called has a kind if both have the same."""
        start, found = self._by_end.get(place, (0, None))
        begins = self._query.word(start - 1) in {"WITH", "RETURN", "DISTINCT", ","}
        is_whole = begins and not self._is_part_of_text(start)
        name, kind = self._query.sign(place + 1), found.kind if found and is_whole else None
        self._aliases[name] = kind if self._aliases.get(name, kind) == kind else None

    def at(self, place: int) -> _Operand | None:
        """The whole operand that begins there."""
        found = self._read(place)
        return None if found is None or self._query.sign(found.end) in _JOINS_BEHIND else found

    def before(self, place: int) -> _Operand | None:
        """The whole operand that ends before that place."""
        start, found = self._by_end.get(place, (0, None))
        if found is None or self._query.sign(start - 1) in _JOINS_BEFORE or self._is_part_of_text(start):
            return None
        return found

    def _is_part_of_text(self, start: int) -> bool:
        """`CONTAINS 'a'`, `STARTS WITH 'a'`: the whole of it is true or false."""
        word, before = self._query.word(start - 1), self._query.word(start - 2)
        return word == "CONTAINS" or (word == "WITH" and before in {"STARTS", "ENDS"})

    def _read(self, place: int) -> _Operand | None:
        query = self._query
        sign, end, kind = query.sign(place), place + 1, None
        if sign == "-" and query.sign(end)[:1].isdigit():
            end, kind = end + 1, _NUMBER
        elif sign[:1] in {"'", '"'}:
            kind = _TEXT
        elif sign[:1].isdigit():
            kind = _NUMBER
        elif query.is_word(place) and query.sign(place - 1) != ".":
            end, kind = self._read_word(place)
        return None if kind is None else _Operand(query.text_of(place, end), end, kind)

    def _read_word(self, place: int) -> tuple[int, str | None]:
        query, word, end = self._query, self._query.word(place), place + 1
        if query.sign(end) == ".":
            end, kind = place + 3, self.kind_of(place + 2, query.sign(place))
            if query.sign(end) == "." and query.is_word(end + 1):
                is_part = kind == _DATE and query.sign(end + 1) in _PARTS_OF_DATES
                end, kind = end + 2, _NUMBER if is_part else None
            return end, None if query.sign(end) == "(" else kind
        if query.sign(end) == "(" and end in query.closing:
            return query.closing[end] + 1, self._kind_of_call(word, end)
        if word in {"TRUE", "FALSE"}:
            return end, _BOOLEAN
        if word in KEYWORDS:
            return end, None
        if query.word(end) == "IN" and query.sign(place - 1) in {"[", "("}:
            # The variable of a list.
            self._aliases[query.sign(place)] = None
        return end, self._aliases.get(query.sign(place))

    def _kind_of_call(self, word: str, opening: int) -> str | None:
        if word not in {"MIN", "MAX"}:
            return _CALLS.get(word)
        inside = self._read(opening + 1)
        return inside.kind if inside and inside.end == self._query.closing[opening] else None

    def kind_of(self, place: int, variable: str | None) -> str | None:
        """Of the property at that place; None where it may be of several."""
        name = self._query.sign(place)
        if name in self._built:
            return None
        owners = self._owners.get(variable or "") or set(self._columns)
        kinds = {self._columns[it][name] for it in owners if name in self._columns.get(it, {})}
        return next(iter(kinds)) if len(kinds) == 1 else None


def _columns(graph: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The kinds of the properties of each label and type."""
    owners = [(it["label"], it["columns"]) for it in graph["nodes"]]
    owners += [(it["type"], it["columns"]) for it in graph["edges"]]
    return {name: {column[0]: _KINDS[type_of(column)] for column in columns} for name, columns in owners}


def _owners(query: Query, names: Names) -> dict[str, set[str]]:
    """The labels and types that each variable is said to have somewhere."""
    found: dict[str, set[str]] = {}
    for place in (*names.labels, *names.types):
        first = place - 1
        while query.sign(first) in {"|", "&"} or (query.sign(first) == ":" and query.sign(first - 1) == "|"):
            first -= 2 + (query.sign(first) == ":")
        if query.sign(first) == ":" and query.is_word(first - 1) and query.word(first - 2) != "NOT":
            found.setdefault(query.sign(first - 1), set()).add(query.sign(place))
    return found
