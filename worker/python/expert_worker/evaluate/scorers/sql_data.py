"""Databases for judging SQL: a row's `schema` and `seed` say everything about their content.

A schema is a list of tables: {"table", "rows", "columns"}, a column one of
    [name, "key"]                      1, 2, 3 ...
    [name, "ref", table]               a key of that table; some keys are never referred to
    [name, "name", [words]]            words, numbered where they run out
    [name, "cat", [words], nullable]   one of few words
    [name, "int", low, high, nullable] never the same number twice, so that no order is a matter of luck
    [name, "date", nullable]           days of 2022-2024
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

Value = str | int | None
FIRST_DAY = date(2022, 1, 1)
DAYS = 3 * 365
TYPES = {"key": "INT", "ref": "INT", "name": "TEXT", "cat": "TEXT", "int": "INT", "date": "DATE"}
NULL_SHARE = 0.2
PARENTS = 9  # keys to refer to where the schema leaves the parent's table out


def ddl(schema: list[dict[str, Any]]) -> str:
    """The CREATE TABLE statements, one per line: shown to the model and used to create the database.

    Short, because a model reads it with every question; a name follows its comma at once, as it follows a
    parenthesis or a dot in a query, so that its tokens are the same in both.
    """
    return "\n".join(_create(table) for table in schema)


def _create(table: dict[str, Any]) -> str:
    columns = ",".join(f"{column[0]} {TYPES[column[1]]}" for column in table["columns"])
    return f"CREATE TABLE {table['table']} ({columns});"


def build(schema: list[dict[str, Any]], seed: str, *, reverse: bool = False) -> sqlite3.Connection:
    """A database in memory. `reverse` stores the same rows in the opposite order."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(ddl(schema))
    sizes = {table["table"]: int(table["rows"]) for table in schema}
    for table in schema:
        rows = list(zip(*_columns(table, sizes, seed), strict=True))
        marks = ", ".join("?" * len(table["columns"]))
        ordered = reversed(rows) if reverse else rows
        connection.executemany(f"INSERT INTO {table['table']} VALUES ({marks})", ordered)  # noqa: S608
    return connection


def _columns(table: dict[str, Any], sizes: dict[str, int], seed: str) -> Iterator[list[Value]]:
    for column in table["columns"]:
        draw = Draw(f"{seed}/{table['table']}/{column[0]}")
        yield values(column, int(table["rows"]), sizes, draw)


def values(column: list[Any], count: int, sizes: dict[str, int], draw: Draw) -> list[Value]:
    kind = column[1]
    if kind == "key":
        return list(range(1, count + 1))
    if kind == "ref":
        return _references(sizes.get(column[2], PARENTS), count, draw)
    if kind == "name":
        words = draw.shuffled(column[2])
        return [
            words[i % len(words)] + (f" {i // len(words) + 1}" if i >= len(words) else "")
            for i in range(count)
        ]
    found: list[Value]
    if kind == "cat":
        found = [draw.one(column[2]) for _ in range(count)]
    elif kind == "int":
        found = list(draw.some(range(column[2], column[3] + 1), count))
    else:
        found = [(FIRST_DAY + timedelta(days=day)).isoformat() for day in draw.some(range(DAYS), count)]
    nullable = bool(column[-1]) if isinstance(column[-1], bool) else False
    return [None if nullable and draw.chance(NULL_SHARE) else value for value in found]


def _references(parents: int, count: int, draw: Draw) -> list[Value]:
    """About a fifth of the parents stay without children: so outer joins have something to find."""
    used = draw.some(range(1, parents + 1), max(1, parents - max(1, parents // 5)))
    return [draw.one(used) for _ in range(count)]
