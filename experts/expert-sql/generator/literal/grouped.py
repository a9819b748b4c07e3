"""Level 2: groups, having, dates as groups."""

from __future__ import annotations

from .conditions import conditions
from .plain import FUNCTIONS, said, tags, where, without
from .scene import Question, Scene, people_call, pick


def group_count(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key = pick(table, draw, "cat")
    if key is None:
        return None
    found = conditions(table, draw, draw.between(0, 2))
    sql = f"SELECT {key.name}, COUNT(*) FROM {table.name}{where(found)} GROUP BY {key.name}"
    return Question(
        f"For each {key.phrase}, count the {people_call(table)}{said(found)}.",
        sql, 2, ("group-count", *tags(found)), (table.name,), without(found, sql),
    )  # fmt: skip


def group_aggregate(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key, column = pick(table, draw, "cat"), pick(table, draw, "int")
    if key is None or column is None:
        return None
    word = draw.one(list(FUNCTIONS))
    found = conditions(table, draw, draw.between(0, 1))
    value = f"{FUNCTIONS[word]}({column.name})"
    sql = f"SELECT {key.name}, {value} FROM {table.name}{where(found)} GROUP BY {key.name}"
    text = f"For each {key.phrase}, show the {word} {column.phrase} of the {people_call(table)}{said(found)}"
    extra: tuple[str, ...] = ()
    if draw.chance(0.4):
        falling = draw.chance(0.5)
        sql += f" ORDER BY {value} {'DESC' if falling else 'ASC'}"
        text += f", {'highest' if falling else 'lowest'} first"
        extra = ("group-order",)
    return Question(
        f"{text}.", sql, 2, ("group-aggregate", *extra, *tags(found)), (table.name,), without(found, sql)
    )


def having(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key, column = pick(table, draw, "cat", "ref"), pick(table, draw, "int", solid=True)
    if key is None or column is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    words, sign = draw.one([("above", ">"), ("below", "<"), ("at least", ">=")])
    if draw.chance(0.5):
        number = draw.between(3, 8)
        text = f"Show each {key.phrase} with a count of {people_call(table)}{said(found)} {words} {number}."
        test, kind = f"COUNT(*) {sign} {number}", "having-count"
    else:
        word = draw.one(list(FUNCTIONS))
        number = _threshold(word, column.spec[2], column.spec[3], draw.between(30, 70))
        text = f"Show each {key.phrase} with a {word} {column.phrase} of {people_call(table)}{said(found)} {words} {number}."
        test, kind = f"{FUNCTIONS[word]}({column.name}) {sign} {number}", "having-aggregate"
    body = f"SELECT {key.name} FROM {table.name}{where(found)} GROUP BY {key.name}"
    sql = f"{body} HAVING {test}"
    return Question(text, sql, 2, (kind, *tags(found)), (table.name,), (*without(found, sql), body))


def _threshold(word: str, low: int, high: int, percent: int) -> int:
    """A number between the values of the groups: a group has about six of 24 rows."""
    span = high - low
    if word == "total":
        return (low + span // 2) * 6 * percent // 50
    share = {"average": percent, "highest": 70 + percent // 4, "lowest": 5 + percent // 4}[word]
    return low + span * share // 100


def per_period(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    day, column = pick(table, draw, "date", solid=True), pick(table, draw, "int")
    if day is None or column is None:
        return None
    period, form = draw.one([("year", "%Y"), ("month", "%Y-%m"), ("calendar month", "%m")])
    part = f"strftime('{form}', {day.name})"
    word = draw.one(["", *FUNCTIONS])
    value = f"{FUNCTIONS[word]}({column.name})" if word else "COUNT(*)"
    found = conditions(table, draw, draw.between(0, 1))
    sql = f"SELECT {part}, {value} FROM {table.name}{where(found)} GROUP BY {part}"
    what = f"show the {word} {column.phrase} of" if word else "count"
    text = f"For each {period} of {day.phrase}, {what} the {people_call(table)}{said(found)}."
    return Question(text, sql, 2, ("group-date", *tags(found)), (table.name,), without(found, sql))


def days_since(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    day, shown = pick(table, draw, "date", solid=True), pick(table, draw, "cat", "name", "int")
    if day is None or shown is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    until = f"2025-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
    sql = f"SELECT {shown.name}, julianday('{until}') - julianday({day.name}) FROM {table.name}{where(found)}"
    text = f"Show the {shown.phrase} of {people_call(table)}{said(found)} and the days from the {day.phrase} to {until}."
    return Question(text, sql, 2, ("date-arithmetic", *tags(found)), (table.name,), without(found, sql))


def share(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.child
    key = pick(table, draw, "cat")
    if key is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    tail = f"FROM {table.name}{where(found)}"
    sql = f"SELECT {key.name}, 100.0 * COUNT(*) / (SELECT COUNT(*) {tail}) {tail} GROUP BY {key.name}"
    text = f"For each {key.phrase}, show the percentage of the {people_call(table)}{said(found)}."
    return Question(text, sql, 3, ("share", *tags(found)), (table.name,), ())
