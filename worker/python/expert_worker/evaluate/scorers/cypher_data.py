"""Graphs for judging Cypher: a row's `graph` and `seed` say everything about their content.

A graph is {"nodes": [{"label", "count", "columns"}], "edges": [{"type", "from", "to", "columns", "most"}]},
with columns as in `sql_data`, except "key", "ref" and "datetime". A node has one to `most` relationships of
a type, two where `most` is left out. Every node also has a hidden key `id`. The data keeps to what Neo4j
holds too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import ladybug

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.scorers.sort_order import Expected
from expert_worker.evaluate.scorers.sql_data import values

TYPES = {
    "name": "STRING",
    "cat": "STRING",
    "int": "INT64",
    "number": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
}
POOL_BYTES = 64 << 20
DATABASE_BYTES = 1 << 30


class Graph:
    """One graph in memory, open for questions. `reverse` stores the same content in the opposite order."""

    def __init__(self, graph: dict[str, Any], seed: str, *, reverse: bool = False) -> None:
        self._database = ladybug.Database(
            ":memory:", buffer_pool_size=POOL_BYTES, max_num_threads=1, max_db_size=DATABASE_BYTES
        )
        self._connection = ladybug.Connection(self._database, num_threads=1)
        _fill(self._connection, graph, seed, -1 if reverse else 1)
        # What reference answers return, see `CypherScorer.expected`.
        self.expected: dict[str, Expected] = {}

    def ask(self, question: str, most: int) -> list[list[Any]]:
        """At most `most` rows and one more, in a read-only transaction. Close a graph that raises."""
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        found: Any = self._connection.execute(question)
        rows: list[list[Any]] = []
        while found.has_next() and len(rows) <= most:
            rows.append([_with_plain_numbers(value) for value in found.get_next()])
        self._connection.execute("ROLLBACK")
        return rows

    def close(self) -> None:
        self._connection.close()
        self._database.close()


def _with_plain_numbers(value: Any) -> Any:
    """A sum of whole numbers is a Decimal to the engine's client, and a whole number in Neo4j."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_with_plain_numbers(part) for part in value]
    if isinstance(value, dict):
        return {key: _with_plain_numbers(part) for key, part in value.items()}
    return value


def _fill(connection: Any, graph: dict[str, Any], seed: str, step: int) -> None:
    """`step` is -1 for the opposite order."""
    counts = {node["label"]: int(node["count"]) for node in graph["nodes"]}
    for node in graph["nodes"]:
        fields = "".join(f", {column[0]} {type_of(column)}" for column in node["columns"])
        connection.execute(f"CREATE NODE TABLE {node['label']}(id INT64 PRIMARY KEY{fields})")
        names = ["id", *(column[0] for column in node["columns"])]
        body = ", ".join(f"{name}: row.{name}" for name in names)
        made = list(_nodes(node, counts, seed))
        connection.execute(
            f"UNWIND $rows AS row CREATE (:{node['label']} {{{body}}})", {"rows": made[::step]}
        )
    for edge in graph["edges"]:
        fields = "".join(f", {column[0]} {type_of(column)}" for column in edge["columns"])
        connection.execute(f"CREATE REL TABLE {edge['type']}(FROM {edge['from']} TO {edge['to']}{fields})")
        body = ", ".join(f"{column[0]}: row.{column[0]}" for column in edge["columns"])
        connection.execute(
            f"UNWIND $rows AS row MATCH (a:{edge['from']} {{id: row.a}}), (b:{edge['to']} {{id: row.b}}) "
            f"CREATE (a)-[:{edge['type']}{f' {{{body}}}' if body else ''}]->(b)",
            {"rows": list(_edges(edge, counts, seed))[::step]},
        )


def type_of(column: list[Any]) -> str:
    if column[1] == "cat" and all(type(word) is int for word in column[2]):
        return "INT64"
    return TYPES[column[1]]


def _nodes(node: dict[str, Any], counts: dict[str, int], seed: str) -> Iterator[dict[str, Any]]:
    count = counts[node["label"]]
    columns = {
        column[0]: values(column, count, counts, Draw(f"{seed}/{node['label']}/{column[0]}"))
        for column in node["columns"]
    }
    for place in range(count):
        yield {"id": place, **{name: _typed(node, name, column[place]) for name, column in columns.items()}}


def _edges(edge: dict[str, Any], counts: dict[str, int], seed: str) -> Iterator[dict[str, Any]]:
    """About a fifth of the nodes at either end stay alone; no node points at itself or twice at another."""
    draw = Draw(f"{seed}/{edge['type']}")
    starts = draw.some(range(counts[edge["from"]]), counts[edge["from"]] * 4 // 5)
    ends = draw.some(range(counts[edge["to"]]), counts[edge["to"]] * 4 // 5)
    pairs = [(a, b) for a in starts for b in draw.some(ends, draw.between(1, int(edge.get("most", 2))))]
    pairs = [(a, b) for a, b in pairs if edge["from"] != edge["to"] or a != b]
    columns = {
        column[0]: values(column, len(pairs), counts, Draw(f"{seed}/{edge['type']}/{column[0]}"))
        for column in edge["columns"]
    }
    for place, (a, b) in enumerate(pairs):
        yield {
            "a": a,
            "b": b,
            **{name: _typed(edge, name, column[place]) for name, column in columns.items()},
        }


def _typed(owner: dict[str, Any], name: str, value: Any) -> Any:
    is_date = any(column[0] == name and column[1] == "date" for column in owner["columns"])
    return date.fromisoformat(value) if is_date and value is not None else value
