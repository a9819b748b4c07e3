"""Databases for judging SQL: a row's `schema` and `seed` say everything about their content.

A schema is a list of tables: {"table", "rows", "columns"}, a column one of
    [name, "key"]                      1, 2, 3 ...
    [name, "ref", table, nullable]     a key of that table; some keys are never referred to
    [name, "name", [words]]            words, numbered where they run out
    [name, "cat", [words], nullable]   one of few words
    [name, "int", low, high, nullable] never the same number twice, so that no order is a matter of luck
    [name, "number", low, high, step, nullable]  as "int", in steps: money, or a range too wide for "int"
    [name, "bool", nullable]           true or false
    [name, "date", nullable]           days of 2022-2024
    [name, "datetime", nullable]       seconds of those days
`nullable` may be left out. The tables are created by the row's own `ddl` where it has one, so that types,
keys, quoted names and comments can look as people write them; otherwise by `ddl(schema)`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

Value = str | int | float | None
FIRST_DAY = date(2022, 1, 1)
DAYS = 3 * 365
DAY = 24 * 60 * 60
TYPES = {
    "key": "INT",
    "ref": "INT",
    "name": "TEXT",
    "cat": "TEXT",
    "int": "INT",
    "number": "NUMERIC",
    "bool": "BOOL",
    "date": "DATE",
    "datetime": "DATETIME",
}
CREATES = {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_FUNCTION,
}
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


def build(
    schema: list[dict[str, Any]], seed: str, *, reverse: bool = False, statements: str | None = None
) -> sqlite3.Connection:
    """A database in memory. `reverse` stores the same rows in the opposite order."""
    return filled(schema, contents(schema, seed), reverse=reverse, statements=statements)


def contents(schema: list[dict[str, Any]], seed: str) -> list[list[tuple[Value, ...]]]:
    """The rows of each table."""
    sizes = {table["table"]: int(table["rows"]) for table in schema}
    return [list(zip(*_columns(table, sizes, seed), strict=True)) for table in schema]


def filled(
    schema: list[dict[str, Any]],
    content: list[list[tuple[Value, ...]]],
    *,
    reverse: bool = False,
    statements: str | None = None,
) -> sqlite3.Connection:
    """A database in memory with these rows, see `contents`."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.set_authorizer(_creates_only)
    connection.executescript(ddl(schema) if statements is None else statements)
    connection.set_authorizer(None)
    for table, rows in zip(schema, content, strict=True):
        marks = ", ".join("?" * len(table["columns"]))
        ordered = reversed(rows) if reverse else rows
        connection.executemany(f"INSERT INTO {_quoted(table['table'])} VALUES ({marks})", ordered)  # noqa: S608
    return connection


def _creates_only(action: int, *_: str | None) -> int:
    """A row may come from anywhere: its statements create tables, and never attach a file or set a pragma."""
    return sqlite3.SQLITE_OK if action in CREATES else sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(table: dict[str, Any], sizes: dict[str, int], seed: str) -> Iterator[list[Value]]:
    for column in table["columns"]:
        draw = Draw(f"{seed}/{table['table']}/{column[0]}")
        yield values(column, int(table["rows"]), sizes, draw)


def values(column: list[Any], count: int, sizes: dict[str, int], draw: Draw) -> list[Value]:
    kind = column[1]
    nullable = column[-1] is True
    if kind == "key":
        return list(range(1, count + 1))
    if kind == "name":
        words = draw.shuffled(column[2])
        return [
            words[i % len(words)] + (f" {i // len(words) + 1}" if i >= len(words) else "")
            for i in range(count)
        ]
    found: list[Value]
    if kind == "ref":
        found = _references(sizes.get(column[2], PARENTS), count, draw)
    elif kind == "cat":
        found = [draw.one(column[2]) for _ in range(count)]
    elif kind == "int":
        found = list(draw.some(range(column[2], column[3] + 1), count))
    elif kind == "number":
        found = _numbers(column[2], column[3], column[4], count, draw)
    elif kind == "bool":
        found = [draw.chance(0.5) for _ in range(count)]
    else:
        found = [(FIRST_DAY + timedelta(days=day)).isoformat() for day in draw.some(range(DAYS), count)]
    if kind == "datetime":
        found = [f"{day} {timedelta(seconds=draw.below(DAY))!s:0>8}" for day in found]
    return [None if nullable and draw.chance(NULL_SHARE) else value for value in found]


def _numbers(low: float, high: float, step: float, count: int, draw: Draw) -> list[Value]:
    """Different multiples of the step above `low`."""
    steps = round((high - low) / step)
    if steps + 1 < count:
        raise ValueError(f"{low} to {high} by {step} has fewer than {count} numbers")
    places: dict[int, None] = {}
    while len(places) < count:
        places.setdefault(draw.below(steps + 1))
    return [round(low + place * step, 6) for place in places]


def _references(parents: int, count: int, draw: Draw) -> list[Value]:
    """About a fifth of the parents stay without children: so outer joins have something to find."""
    used = draw.some(range(1, parents + 1), max(1, parents - max(1, parents // 5)))
    return [draw.one(used) for _ in range(count)]
