"""One graph of a world: which of its labels' names, properties and values a question meets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .lexicon import Concept, EdgeText, LabelText, WorldText, words_of
from .names import names

TYPES = {"name": "STRING", "cat": "STRING", "int": "INT", "number": "INT", "bool": "BOOLEAN", "date": "DATE"}
# The first label of a world has more nodes, so that counts per node differ.
MANY, FEW = 14, 9
YEARS = 8


@dataclass(frozen=True)
class Column:
    concept: Concept
    field: str
    spec: tuple[Any, ...]

    @property
    def kind(self) -> str:
        return self.concept.kind

    @property
    def type(self) -> str:
        if self.kind == "year":
            return "INT"
        return TYPES[self.spec[1]]

    @property
    def few(self) -> bool:
        """A year that several nodes share: to be asked for by itself, not to be ordered by."""
        return self.kind == "year" and self.spec[1] == "cat"

    @property
    def ordered(self) -> bool:
        return self.kind in {"measure", "count", "year", "date"} and not self.few


@dataclass(frozen=True)
class Node:
    label: str
    text: LabelText
    columns: tuple[Column, ...]
    count: int

    @property
    def name(self) -> Column:
        return self.columns[0]

    @property
    def person(self) -> bool:
        return self.text.person

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.columns[1:] if column.kind in kinds]


@dataclass(frozen=True)
class Part:
    """A node of the question: its kind and its variable, `a` for a pattern's first node, `b` for its second."""

    node: Node
    variable: str

    @property
    def pattern(self) -> str:
        return f"({self.variable}:{self.node.label})"

    def of(self, column: Column) -> str:
        return f"{self.variable}.{column.field}"

    @property
    def name(self) -> str:
        return self.of(self.node.name)


@dataclass(frozen=True)
class Edge:
    type: str
    text: EdgeText
    start: Node
    end: Node
    columns: tuple[Column, ...]

    @property
    def loop(self) -> bool:
        return self.start is self.end


@dataclass(frozen=True)
class World:
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    layout: str

    def described(self) -> dict[str, Any]:
        """As the scorer builds it."""
        nodes = [
            {
                "label": node.label,
                "count": node.count,
                "columns": [list(column.spec) for column in node.columns],
            }
            for node in self.nodes
        ]
        edges = [
            {
                "type": edge.type,
                "from": edge.start.label,
                "to": edge.end.label,
                "columns": [list(column.spec) for column in edge.columns],
                "most": 2 if edge.start.count >= edge.end.count else 4,
            }
            for edge in self.edges
        ]
        return {"nodes": nodes, "edges": edges}

    def has_noun(self, noun: str) -> bool:
        """Whether some nodes are called so: `per city` would mean them, not a property."""
        return any(noun in forms for node in self.nodes for forms in node.text.nouns)

    def only(self, one: Node, other: Node) -> bool:
        """Whether a single relationship links the two, so that `teams without players` says which."""
        return (
            len(
                [
                    edge
                    for edge in self.edges
                    if {edge.start.label, edge.end.label} == {one.label, other.label}
                ]
            )
            == 1
        )


def world(text: WorldText, number: int, split: str) -> World:
    """The same for the same number: names of labels and properties, which properties there are, and their values."""
    draw = Draw(f"graph/{split}/{text.name}/{number}")
    # Held-out graphs use every name that they have; so do training's, a name more in each round.
    snake = draw.chance(0.35)
    nodes = {
        label.labels[0]: _node(label, number, split, snake, MANY if place == 0 else FEW, draw)
        for place, label in enumerate(text.labels)
    }
    edges = [_edge(edge, nodes, number, split, snake, draw) for edge in text.edges]
    layout = draw.weighted(tuple(LAYOUTS), tuple(LAYOUTS.values()))
    return World(text.name, tuple(nodes.values()), tuple(edges), layout)


# How the schema is written, and how often.
LAYOUTS = {"pattern": 12.0, "spaced": 5.0, "sections": 2.0, "bare": 2.0, "list": 2.0, "commented": 2.0}


def _node(label: LabelText, number: int, split: str, snake: bool, count: int, draw: Draw) -> Node:
    named, *others = label.concepts
    kept = draw.some(range(len(others)), min(len(others), draw.between(2, 4)))
    columns = [
        _column(concept, split, snake, draw) for concept in (named, *(others[i] for i in sorted(kept)))
    ]
    fields: dict[str, Column] = {}
    for column in columns:
        fields.setdefault(column.field, column)
    return Node(label.labels[number % len(label.labels)], label, tuple(fields.values()), count)


def _edge(edge: EdgeText, nodes: dict[str, Node], number: int, split: str, snake: bool, draw: Draw) -> Edge:
    columns = tuple(_column(concept, split, snake, draw) for concept in edge.concepts)
    return Edge(edge.types[number % len(edge.types)], edge, nodes[edge.start], nodes[edge.end], columns)


def _column(concept: Concept, split: str, snake: bool, draw: Draw) -> Column:
    field = concept.fields[0] if draw.chance(0.4) else draw.one(concept.fields)
    if snake:
        field = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", field).lower()
    return Column(concept, field, _spec(concept, field, split, draw))


def _spec(concept: Concept, field: str, split: str, draw: Draw) -> tuple[Any, ...]:
    """As in the scorer's `cypher_data`."""
    if concept.kind == "name":
        return field, "name", names(concept.values, split, draw)
    if concept.kind == "cat":
        values = concept.values.split("|")
        return field, "cat", draw.some(values, min(4, len(values))), False
    if concept.kind == "flag":
        return field, "bool", False
    if concept.kind == "date":
        return field, "date", False
    low, high = (int(part) for part in concept.values.split("-"))
    if concept.kind == "year" and draw.chance(0.35):
        return field, "cat", sorted(draw.some(range(max(low, high - 40), high + 1), YEARS)), False
    if high - low > 3000:
        return field, "number", low, high, 100 if high < 30000 else 500, False
    return field, "int", low, high, False


def spoken(column: Column, draw: Draw) -> str:
    """What people call the property: its own word of the schema now and then."""
    nouns = column.concept.nouns
    if not nouns or (column.kind not in {"year", "date"} and draw.chance(0.25)):
        return words_of(column.field)
    return draw.one(nouns)


def shown(whole: World, nodes: set[str], types: set[str]) -> World:
    """The part of it that a question's schema has."""
    kept = tuple(edge for edge in whole.edges if edge.type in types)
    ends = nodes | {node.label for edge in kept for node in (edge.start, edge.end)}
    return replace(whole, nodes=tuple(node for node in whole.nodes if node.label in ends), edges=kept)
