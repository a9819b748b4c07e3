"""Levels 1 and 2: one table."""

from __future__ import annotations

from .conditions import Condition, conditions
from .domains import Table
from .scene import Question, Scene, people_call, pick

FUNCTIONS = {"average": "AVG", "total": "SUM", "highest": "MAX", "lowest": "MIN"}


def where(found: Condition | None) -> str:
    return f" WHERE {found.sql}" if found else ""


def said(found: Condition | None) -> str:
    return f" {found.text}" if found else ""


def tags(found: Condition | None) -> tuple[str, ...]:
    return found.tags if found else ()


def without(found: Condition | None, sql: str) -> tuple[str, ...]:
    """The query with its condition forgotten."""
    return (sql.replace(where(found), "", 1),) if found else ()


def listing(scene: Scene) -> Question:
    draw, table = scene.draw, scene.table()
    columns = draw.some(table.columns, draw.between(1, min(3, len(table.columns))))
    found = conditions(table, draw, draw.between(1, 2))
    sql = f"SELECT {', '.join(column.name for column in columns)} FROM {table.name}{where(found)}"
    phrases = _and([column.phrase for column in columns])
    return Question(
        f"Show the {phrases} of {people_call(table)}{said(found)}.",
        sql, 1, ("select", *tags(found)), (table.name,), without(found, sql),
    )  # fmt: skip


def ordered(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.table()
    by = pick(table, draw, "int", "date", solid=True)
    if by is None:
        return None
    columns = draw.some(table.columns, draw.between(1, 2))
    found = conditions(table, draw, draw.between(0, 1))
    falling, limit = draw.chance(0.5), draw.between(2, 6) if draw.chance(0.55) else None
    body = f"SELECT {', '.join(column.name for column in columns)} FROM {table.name}{where(found)}"
    order = f" ORDER BY {by.name} {'DESC' if falling else 'ASC'}"
    sql = body + order + (f" LIMIT {limit}" if limit else "")
    way = ("latest" if falling else "earliest") if by.kind == "date" else ("highest" if falling else "lowest")
    phrases = _and([column.phrase for column in columns])
    amount = f"{limit} {people_call(table)}" if limit else people_call(table)
    text = f"Show the {phrases} of {amount}{said(found)}, {way} {by.phrase} first."
    return Question(
        text,
        sql,
        1,
        ("order-limit" if limit else "order-by", *tags(found)),
        (table.name,),
        (*without(found, sql), body),
    )


def counting(scene: Scene) -> Question:
    draw, table = scene.draw, scene.table()
    found = conditions(table, draw, draw.between(1, 2))
    sql = f"SELECT COUNT(*) FROM {table.name}{where(found)}"
    text = f"Count the {people_call(table)}{said(found)}."
    return Question(text, sql, 1, ("count", *tags(found)), (table.name,), without(found, sql))


def aggregate(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.table()
    column = pick(table, draw, "int")
    if column is None:
        return None
    word = draw.one(list(FUNCTIONS))
    found = conditions(table, draw, draw.between(0, 2))
    sql = f"SELECT {FUNCTIONS[word]}({column.name}) FROM {table.name}{where(found)}"
    text = f"Show the {word} {column.phrase} of {people_call(table)}{said(found)}."
    return Question(text, sql, 1, ("aggregate", *tags(found)), (table.name,), without(found, sql))


def distinct(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.table()
    column = pick(table, draw, "cat")
    if column is None:
        return None
    found = conditions(table, draw, draw.between(1, 2))
    counted = draw.chance(0.4)
    what = f"COUNT(DISTINCT {column.name})" if counted else f"DISTINCT {column.name}"
    sql = f"SELECT {what} FROM {table.name}{where(found)}"
    text = (
        f"{'Count' if counted else 'Show'} the distinct {column.phrase} of {people_call(table)}{said(found)}."
    )
    weaker = sql.replace("DISTINCT ", "")
    return Question(text, sql, 1, ("distinct", *tags(found)), (table.name,), (*without(found, sql), weaker))


def choice(scene: Scene) -> Question | None:
    """CASE WHEN."""
    draw, table = scene.draw, scene.table()
    shown, judged = pick(table, draw, "name", "cat", "date"), conditions(table, draw, 1)
    if shown is None or judged is None:
        return None
    yes, no = draw.one([("high", "low"), ("yes", "no"), ("big", "small"), ("hot", "cold"), ("new", "old")])
    found = conditions(table, draw, draw.between(0, 1))
    sql = f"SELECT {shown.name}, CASE WHEN {judged.sql} THEN '{yes}' ELSE '{no}' END FROM {table.name}{where(found)}"
    text = f"Show the {shown.phrase} of {people_call(table)}{said(found)}, and '{yes}' where {judged.text.removeprefix('with ')}, else '{no}'."
    return Question(text, sql, 2, ("case", *tags(found)), (table.name,), without(found, sql))


def fallback(scene: Scene) -> Question | None:
    """COALESCE."""
    draw, table = scene.draw, scene.table()
    empty = [column for column in table.of_kind("cat", "date") if column.nullable]
    others = [column for column in table.columns if not column.nullable]
    if not empty or not others:
        return None
    column, other, word = draw.one(empty), draw.one(others), draw.one(["none", "unknown", "missing"])
    found = conditions(table, draw, draw.between(0, 1))
    sql = f"SELECT {other.name}, COALESCE({column.name}, '{word}') FROM {table.name}{where(found)}"
    text = f"Show the {other.phrase} and the {column.phrase} of {people_call(table)}{said(found)}, '{word}' where there is none."
    weaker = f"SELECT {other.name}, {column.name} FROM {table.name}{where(found)}"
    return Question(text, sql, 2, ("coalesce", *tags(found)), (table.name,), (*without(found, sql), weaker))


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def whole_tables(tables: tuple[Table, ...]) -> tuple[str, ...]:
    return tuple(f"SELECT * FROM {table.name}" for table in tables)
