"""Conditions: the same thing said in English and in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from expert_worker.evaluate.authoring.draw import Draw

from .domains import Column, Table

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@dataclass(frozen=True)
class Condition:
    text: str
    sql: str
    tags: tuple[str, ...]


Maker = Callable[[Column, str, Draw], Condition]


def condition(table: Table, draw: Draw, *, qualified: bool = False, avoid: tuple[str, ...] = ()) -> Condition:
    """One condition on a column of the table; `qualified` puts the table's name before the column's, in both."""
    columns = [column for column in table.columns if column.name not in avoid] or list(table.columns)
    column = draw.weighted(columns, [WEIGHTS[column.kind] for column in columns])
    name = f"{table.name}.{column.name}" if qualified else column.name
    column = replace(column, phrase=name) if qualified else column
    makers = list(MAKERS[column.kind])
    if column.nullable:
        makers += [_missing, _present]
    return draw.one(makers)(column, name, draw)


def conditions(table: Table, draw: Draw, count: int, *, qualified: bool = False) -> Condition | None:
    """None for a count of 0; two are joined by one `and` or `or`."""
    if count == 0:
        return None
    first = condition(table, draw, qualified=qualified)
    if count == 1:
        return first
    used = tuple(column.name for column in table.columns if column.name in first.sql)
    second = condition(table, draw, qualified=qualified, avoid=used)
    if draw.chance(0.3):
        return Condition(
            f"{first.text} or {second.text}", f"{first.sql} OR {second.sql}", (*first.tags, "or")
        )
    return Condition(
        f"{first.text} and {second.text}", f"{first.sql} AND {second.sql}", (*first.tags, *second.tags, "and")
    )


def _value(column: Column, draw: Draw) -> str:
    return str(draw.one(column.spec[2]))


def _number(column: Column, draw: Draw, low: float = 0.15, high: float = 0.85) -> int:
    """A number well inside the column's range, so that both sides of it have rows."""
    start, end = column.spec[2], column.spec[3]
    return start + int((end - start) * (low + (high - low) * draw.below(1000) / 1000))


def _equal(column: Column, name: str, draw: Draw) -> Condition:
    value = _value(column, draw)
    return Condition(f"with {column.phrase} '{value}'", f"{name} = '{value}'", ("equals",))


def _unequal(column: Column, name: str, draw: Draw) -> Condition:
    value = _value(column, draw)
    return Condition(f"with {column.phrase} not '{value}'", f"{name} <> '{value}'", ("not-equal",))


def _one_of(column: Column, name: str, draw: Draw) -> Condition:
    left, right = draw.some(column.spec[2], 2)
    return Condition(
        f"with {column.phrase} '{left}' or '{right}'", f"{name} IN ('{left}', '{right}')", ("in-list",)
    )


def _compare(column: Column, name: str, draw: Draw) -> Condition:
    words, sign = draw.one([("above", ">"), ("below", "<"), ("at least", ">="), ("at most", "<=")])
    number = _number(column, draw)
    return Condition(f"with {column.phrase} {words} {number}", f"{name} {sign} {number}", ("compare",))


def _between(column: Column, name: str, draw: Draw) -> Condition:
    low, high = _number(column, draw, 0.1, 0.4), _number(column, draw, 0.6, 0.9)
    return Condition(
        f"with {column.phrase} between {low} and {high}", f"{name} BETWEEN {low} AND {high}", ("between",)
    )


def _starts(column: Column, name: str, draw: Draw) -> Condition:
    letter = _value(column, draw)[0]
    return Condition(f"with {column.phrase} starting with '{letter}'", f"{name} LIKE '{letter}%'", ("like",))


def _ends(column: Column, name: str, draw: Draw) -> Condition:
    letter = _value(column, draw)[-1]
    return Condition(f"with {column.phrase} ending with '{letter}'", f"{name} LIKE '%{letter}'", ("like",))


def _holds(column: Column, name: str, draw: Draw) -> Condition:
    part = _value(column, draw)[1:3]
    return Condition(f"with {column.phrase} containing '{part}'", f"{name} LIKE '%{part}%'", ("like",))


def _day(column: Column, name: str, draw: Draw) -> Condition:
    words, sign = draw.one([("after", ">"), ("before", "<")])
    day = f"{draw.between(2022, 2024)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
    return Condition(f"with {column.phrase} {words} '{day}'", f"{name} {sign} '{day}'", ("date-compare",))


def _year(column: Column, name: str, draw: Draw) -> Condition:
    year = draw.between(2022, 2024)
    return Condition(f"with {column.phrase} in {year}", f"strftime('%Y', {name}) = '{year}'", ("date-part",))


def _month(column: Column, name: str, draw: Draw) -> Condition:
    month = draw.between(1, 12)
    text = f"with {column.phrase} in {MONTHS[month - 1]}"
    return Condition(text, f"strftime('%m', {name}) = '{month:02d}'", ("date-part",))


def _missing(column: Column, name: str, draw: Draw) -> Condition:  # noqa: ARG001
    return Condition(f"without {column.phrase}", f"{name} IS NULL", ("null",))


def _present(column: Column, name: str, draw: Draw) -> Condition:  # noqa: ARG001
    return Condition(f"with any {column.phrase}", f"{name} IS NOT NULL", ("null",))


# Letters inside a word are hard to see for a model that reads tokens, so names are asked about less often.
WEIGHTS = {"cat": 3.0, "int": 3.0, "date": 2.0, "name": 1.0}
MAKERS: dict[str, tuple[Maker, ...]] = {
    "name": (_starts, _ends, _holds),
    "cat": (_equal, _equal, _unequal, _one_of),
    "int": (_compare, _compare, _compare, _between),
    "date": (_day, _day, _day, _year, _month),
}
