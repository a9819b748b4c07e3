"""One question's stage, and conditions said in English and in Cypher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .graphs import Column, Node, World


@dataclass(frozen=True)
class Question:
    """`weaker` are queries that a careless reader would write; on at least one graph each returns other rows than `cypher`."""

    text: str
    cypher: str
    level: int
    tags: tuple[str, ...]
    weaker: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """A node of the question: its kind and its variable, `a` for a pattern's first node, `b` for its second."""

    node: Node
    variable: str

    @property
    def pattern(self) -> str:
        return f"({self.variable}:{self.node.label})"

    def of(self, column: Column) -> str:
        return f"{self.variable}.{column.name}"


@dataclass(frozen=True)
class Scene:
    world: World
    draw: Draw

    @property
    def start(self) -> Side:
        return Side(self.world.start, "a")

    @property
    def end(self) -> Side:
        return Side(self.world.end, "b")

    @property
    def other(self) -> Side:
        """The second node of a loop."""
        return Side(self.world.start, "b")

    @property
    def last(self) -> Side:
        """The node at the end of two hops."""
        return Side(self.world.end, "c")

    @property
    def path(self) -> str:
        return f"{self.start.pattern}-[:{self.world.link.type}]->{self.end.pattern}"

    @property
    def loop(self) -> str:
        return f"{self.start.pattern}-[:{self.world.loop.type}]->{self.other.pattern}"

    def side(self) -> Side:
        """The one node of a question about nodes of one kind."""
        return self.start if self.draw.chance(0.6) else Side(self.world.end, "a")

    def pick(self, side: Side, *kinds: str) -> Column | None:
        found = side.node.of_kind(*kinds)
        return self.draw.one(found) if found else None


@dataclass(frozen=True)
class Condition:
    text: str
    cypher: str
    tags: tuple[str, ...]


WEIGHTS = {"cat": 3.0, "int": 3.0, "date": 2.0, "name": 1.0}


def conditions(side: Side, draw: Draw, count: int) -> Condition | None:
    """None for a count of 0; two are joined by one `and` or `or`."""
    if count == 0:
        return None
    weights = [WEIGHTS[column.kind] for column in side.node.columns]
    first_column = draw.weighted(side.node.columns, weights)
    first = _condition(first_column, side, draw)
    if count == 1:
        return first
    second = _condition(
        draw.one([column for column in side.node.columns if column is not first_column]), side, draw
    )
    word = "or" if draw.chance(0.3) else "and"
    return Condition(
        f"{first.text} {word} {second.text}",
        f"{first.cypher} {word.upper()} {second.cypher}",
        (*first.tags, *(second.tags if word == "and" else ()), word),
    )


def _condition(column: Column, side: Side, draw: Draw) -> Condition:
    return draw.one(MAKERS[column.kind])(column, side.of(column), draw)


def where(*found: Condition | None) -> str:
    """Conditions on different nodes, all of which must hold; an `or` among several keeps to its parentheses."""
    there = [condition for condition in found if condition is not None]
    parts = [f"({c.cypher})" if "or" in c.tags and len(there) > 1 else c.cypher for c in there]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def said(found: Condition | None) -> str:
    return f" {found.text}" if found else ""


def tags(*found: Condition | None) -> tuple[str, ...]:
    return tuple(tag for condition in found if condition for tag in condition.tags)


def without(cypher: str, *found: Condition | None) -> tuple[str, ...]:
    """The query with its conditions forgotten."""
    clause = where(*found)
    return (cypher.replace(clause, "", 1),) if clause else ()


def number(column: Column, draw: Draw, low: int = 20, high: int = 80) -> int:
    """Well inside the column's range, so that both sides of it have nodes."""
    start, end = column.spec[2], column.spec[3]
    return int(start + (end - start) * draw.between(low, high) // 100)


def _equal(column: Column, name: str, draw: Draw) -> Condition:
    value = draw.one(column.spec[2])
    return Condition(f"whose {column.name} is '{value}'", f"{name} = '{value}'", ("equals",))


def _unequal(column: Column, name: str, draw: Draw) -> Condition:
    value = draw.one(column.spec[2])
    return Condition(f"whose {column.name} is not '{value}'", f"{name} <> '{value}'", ("not-equal",))


def _one_of(column: Column, name: str, draw: Draw) -> Condition:
    left, right = draw.some(column.spec[2], 2)
    return Condition(
        f"whose {column.name} is '{left}' or '{right}'", f"{name} IN ['{left}', '{right}']", ("in-list",)
    )


def _compare(column: Column, name: str, draw: Draw) -> Condition:
    words, sign = draw.one([("above", ">"), ("below", "<"), ("at least", ">="), ("at most", "<=")])
    limit = number(column, draw)
    return Condition(f"with {column.name} {words} {limit}", f"{name} {sign} {limit}", ("compare",))


def _text(column: Column, name: str, draw: Draw) -> Condition:
    word = draw.one(column.spec[2])
    verb, operator, part = draw.one(
        [
            ("starts with", "STARTS WITH", word[0]),
            ("ends with", "ENDS WITH", word[-1]),
            ("contains", "CONTAINS", word[1:3]),
        ]
    )
    return Condition(f"whose {column.name} {verb} '{part}'", f"{name} {operator} '{part}'", ("text-match",))


def _day(column: Column, name: str, draw: Draw) -> Condition:
    words, sign = draw.one([("after", ">"), ("before", "<")])
    day = f"{draw.between(2022, 2024)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
    return Condition(f"with {column.name} {words} {day}", f"{name} {sign} date('{day}')", ("date-compare",))


MAKERS: dict[str, tuple[Callable[[Column, str, Draw], Condition], ...]] = {
    "cat": (_equal, _equal, _unequal, _one_of),
    "int": (_compare,),
    "name": (_text,),
    "date": (_day,),
}
