"""Levels 3 and 4: subqueries, common table expressions, windows."""

from __future__ import annotations

from .conditions import conditions
from .plain import said, tags, where, without
from .scene import Question, Scene, people_call, pick


def above_average(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    shown, column = pick(table, draw, "name", "cat", "date"), pick(table, draw, "int", solid=True)
    if shown is None or column is None:
        return None
    found, inner = conditions(table, draw, draw.between(0, 1)), conditions(table, draw, draw.between(0, 1))
    words, sign = draw.one([("above", ">"), ("below", "<")])
    guard = f"{found.sql} AND " if found else ""
    sql = (
        f"SELECT {shown.name} FROM {table.name} WHERE {guard}{column.name} {sign} "
        f"(SELECT AVG({column.name}) FROM {table.name}{where(inner)})"
    )
    text = (
        f"Show the {shown.phrase} of {people_call(table)}{said(found)} whose {column.phrase} is {words} "
        f"the average of {'all ' if inner is None else ''}{people_call(table)}{said(inner)}."
    )
    weaker = f"SELECT {shown.name} FROM {table.name}{where(found)}"
    return Question(text, sql, 3, ("scalar-subquery", *tags(found), *tags(inner)), (table.name,), (weaker,))


def extreme(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    shown, column = pick(table, draw, "name", "cat", "int"), pick(table, draw, "int", "date", solid=True)
    found = conditions(table, draw, draw.between(0, 2))
    if shown is None or column is None:
        return None
    high = draw.chance(0.5)
    word = ("latest" if high else "earliest") if column.kind == "date" else ("highest" if high else "lowest")
    inside = f"SELECT {'MAX' if high else 'MIN'}({column.name}) FROM {table.name}{where(found)}"
    sql = f"SELECT {shown.name} FROM {table.name} WHERE {column.name} = ({inside})"
    text = f"Show the {shown.phrase} of the {table.noun} with the {word} {column.phrase} among all {people_call(table)}{said(found)}."
    return Question(text, sql, 3, ("extreme-row", *tags(found)), (table.name,), without(found, sql))


def own_group(scene: Scene) -> Question | None:
    """Correlated: each row against the average of its group."""
    draw, table = scene.draw, scene.child
    shown, column, key = (
        pick(table, draw, "name", "date", "int"), pick(table, draw, "int", solid=True), pick(table, draw, "cat", solid=True),
    )  # fmt: skip
    if shown is None or column is None or key is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    words, sign = draw.one([("above", ">"), ("below", "<")])
    guard = f"{found.sql} AND " if found else ""
    sql = (
        f"SELECT {shown.name} FROM {table.name} WHERE {guard}{column.name} {sign} (SELECT AVG(other.{column.name}) "
        f"FROM {table.name} AS other WHERE other.{key.name} = {table.name}.{key.name})"
    )
    text = (
        f"Show the {shown.phrase} of {people_call(table)}{said(found)} whose {column.phrase} is {words} "
        f"the average of all {people_call(table)} with the same {key.phrase}."
    )
    weaker = f"SELECT {shown.name} FROM {table.name}{where(found)}"
    return Question(text, sql, 4, ("correlated", *tags(found)), (table.name,), (weaker,))


def totals(scene: Scene) -> Question | None:
    """A common table expression of sums, filtered."""
    draw, table = scene.draw, scene.child
    key, column = pick(table, draw, "cat", solid=True), pick(table, draw, "int", solid=True)
    if key is None or column is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    word, function = draw.one([("total", "SUM"), ("average", "AVG"), ("highest", "MAX")])
    words, sign = draw.one([("above", ">"), ("below", "<")])
    inside = f"SELECT {key.name}, {function}({column.name}) AS value FROM {table.name}{where(found)} GROUP BY {key.name}"
    sql = f"WITH sums AS ({inside}) SELECT {key.name} FROM sums WHERE value {sign} (SELECT AVG(value) FROM sums)"
    text = f"Show each {key.phrase} whose {word} {column.phrase} of {people_call(table)}{said(found)} is {words} the average of these."
    return Question(text, sql, 4, ("cte", *tags(found)), (table.name,), without(found, sql))


def best_of_each(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key, by = pick(table, draw, "cat", solid=True), pick(table, draw, "int", "date", solid=True)
    shown = pick(table, draw, "name", "int", "date")
    if key is None or by is None or shown is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    high, count = draw.chance(0.5), draw.between(1, 3)
    columns = ", ".join(dict.fromkeys([key.name, shown.name]))
    inside = (
        f"SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY {key.name} ORDER BY {by.name} {'DESC' if high else 'ASC'}) "
        f"AS place FROM {table.name}{where(found)}"
    )
    sql = f"WITH ranked AS ({inside}) SELECT {columns} FROM ranked WHERE place {f'<= {count}' if count > 1 else '= 1'}"
    word = ("latest" if high else "earliest") if by.kind == "date" else ("highest" if high else "lowest")
    text = (
        f"For each {key.phrase}, show the {shown.phrase} of the {f'{count} ' if count > 1 else ''}"
        f"{people_call(table) if count > 1 else table.noun}{said(found)} with the {word} {by.phrase}."
    )
    return Question(text, sql, 4, ("top-per-group", *tags(found)), (table.name,), without(found, sql))


def ranking(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key, by = pick(table, draw, "cat"), pick(table, draw, "int", "date", solid=True)
    shown = pick(table, draw, "name", "int", "date", "cat")
    if key is None or by is None or shown is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    high, split = draw.chance(0.5), draw.chance(0.6)
    part = f"PARTITION BY {key.name} " if split else ""
    sql = (
        f"SELECT {shown.name}, RANK() OVER ({part}ORDER BY {by.name} {'DESC' if high else 'ASC'}) "
        f"FROM {table.name}{where(found)}"
    )
    way = ("latest" if high else "earliest") if by.kind == "date" else ("highest" if high else "lowest")
    text = (
        f"Show the {shown.phrase} of {people_call(table)}{said(found)} with the rank by {by.phrase}"
        f"{f' within the {key.phrase}' if split else ''}, {way} first."
    )
    return Question(text, sql, 3, ("window-rank", *tags(found)), (table.name,), without(found, sql))


def running(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    day, column = pick(table, draw, "date", solid=True), pick(table, draw, "int", solid=True)
    key = pick(table, draw, "cat", solid=True)
    if day is None or column is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    split = key is not None and draw.chance(0.5)
    part = f"PARTITION BY {key.name} " if key and split else ""
    sql = f"SELECT {day.name}, SUM({column.name}) OVER ({part}ORDER BY {day.name}) FROM {table.name}{where(found)}"
    text = (
        f"Show the {day.phrase} of {people_call(table)}{said(found)} and the running total of {column.phrase} "
        f"by {day.phrase}{f' within each {key.phrase}' if key and split else ''}."
    )
    return Question(text, sql, 3, ("running-total", *tags(found)), (table.name,), without(found, sql))


def step(scene: Scene) -> Question | None:
    """LAG: each row against the one before."""
    draw, table = scene.draw, scene.child
    day, column = pick(table, draw, "date", solid=True), pick(table, draw, "int", solid=True)
    if day is None or column is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    sql = f"SELECT {day.name}, {column.name} - LAG({column.name}) OVER (ORDER BY {day.name}) FROM {table.name}{where(found)}"
    text = (
        f"Show the {day.phrase} of {people_call(table)}{said(found)} and the change in {column.phrase} "
        f"since the one before by {day.phrase}."
    )
    return Question(text, sql, 3, ("lag", *tags(found)), (table.name,), without(found, sql))
