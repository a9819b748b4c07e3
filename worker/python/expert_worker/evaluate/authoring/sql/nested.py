"""Levels 3 and 4: subqueries, common table expressions, windows."""

from __future__ import annotations

from .conditions import a, condition
from .question import Question, keep, ordering, pick, shown, tags, where, without
from .scene import Scene
from .words import about, many, say, superlative

WAYS = ((("above", "higher than", "greater than"), ">"), (("below", "lower than", "less than"), "<"))


def above_average(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number", solid=True)
    if column is None or not table.shown:
        return None
    words, sign = draw.one(WAYS)
    noun = draw.one(column.nouns)
    noun = f"number of {noun}" if column.countable else noun
    sql = (
        f"SELECT {shown(table)} FROM {table.sql} WHERE {column.sql} {sign} "
        f"(SELECT AVG({column.sql}) FROM {table.sql})"
    )
    text = say(
        "above_average", draw, scene.held_out, about(table, None) | {"x": noun, "a_x": a(noun), "w": words[0]}
    )
    weaker = f"SELECT {shown(table)} FROM {table.sql}"
    return Question("above_average", text, sql, 2, ("scalar-subquery",), (table,), (weaker,))


def extreme(scene: Scene) -> Question | None:
    """The whole row of the largest or smallest."""
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number", "date", solid=True)
    if column is None:
        return None
    falling = draw.chance(0.6)
    found = condition(table, draw, avoid=(column.name,)) if draw.chance(0.3) else None
    words = about(table, found) | superlative(column, draw, falling=falling)
    if found and found.before:
        words.pop("sup", None)
    sql = f"SELECT * FROM {table.sql}{where(found)}{ordering(column, falling)} LIMIT 1"
    if "one" not in words:
        return None
    text = say("extreme", draw, scene.held_out, words)
    return Question(
        "extreme", text, sql, 2, ("extreme-row", *tags(found)), (table,), without(found, sql), keep(found)
    )


def own_group(scene: Scene) -> Question | None:
    """Correlated: each row compared with its group's average."""
    draw, table = scene.draw, scene.one()
    column, key = pick(table, draw, "number", solid=True), pick(table, draw, "cat", solid=True)
    if column is None or key is None or not table.shown:
        return None
    words, sign = draw.one(WAYS)
    found = condition(table, draw, avoid=(column.name, key.name)) if draw.chance(0.3) else None
    if found and " OR " in found.sql:
        return None
    sql = (
        f"SELECT {shown(table)} FROM {table.sql} WHERE {f'{found.sql} AND ' if found else ''}{column.sql} {sign} "
        f"(SELECT AVG(other.{column.sql}) FROM {table.sql} AS other WHERE other.{key.sql} = {table.sql}.{key.sql})"
    )
    noun = draw.one(column.nouns)
    said = about(table, found) | {"x": noun, "a_x": a(noun), "w": words[0], "k": draw.one(key.nouns)}
    text = say("own_group", draw, scene.held_out, said)
    weaker = f"SELECT {shown(table)} FROM {table.sql}{where(found)}"
    return Question("own_group", text, sql, 4, ("correlated", *tags(found)), (table,), (weaker,), keep(found))


def totals(scene: Scene) -> Question | None:
    """A common table expression of values, filtered."""
    draw, table = scene.draw, scene.one()
    key, column = pick(table, draw, "cat", solid=True), pick(table, draw, "number", solid=True)
    if key is None or column is None or column.is_year:
        return None
    found = condition(table, draw, avoid=(column.name, key.name)) if draw.chance(0.3) else None
    word, function = draw.one((("total", "SUM"), ("average", "AVG"), ("highest", "MAX")))
    words, sign = draw.one(WAYS)
    inside = f"SELECT {key.sql}, {function}({column.sql}) AS value FROM {table.sql}{where(found)} GROUP BY {key.sql}"
    sql = (
        f"WITH sums AS ({inside}) SELECT {key.sql} FROM sums WHERE value {sign} (SELECT AVG(value) FROM sums)"
    )
    said = about(table, found) | {
        "ks": many(draw.one(key.nouns)), "f": word, "a_f": a(word), "x": draw.one(column.nouns), "w": words[0],
    }  # fmt: skip
    text = say("totals", draw, scene.held_out, said)
    return Question("totals", text, sql, 4, ("cte", *tags(found)), (table,), without(found, sql), keep(found))


def best_of_each(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    key, by = pick(table, draw, "cat", solid=True), pick(table, draw, "number", "date", solid=True)
    if key is None or by is None or not table.shown:
        return None
    found = condition(table, draw, avoid=(by.name, key.name)) if draw.chance(0.25) else None
    falling = draw.chance(0.6)
    words = about(table, found) | superlative(by, draw, falling=falling) | {"k": draw.one(key.nouns)}
    if "one" not in words:
        return None
    if found and found.before:
        words.pop("sup", None)
    columns = f"{key.sql}, {shown(table)}"
    order = ordering(by, falling).strip()
    inside = f"SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY {key.sql} {order}) AS place FROM {table.sql}{where(found)}"
    sql = f"WITH ranked AS ({inside}) SELECT {columns} FROM ranked WHERE place = 1"
    words["nm"] = words["nm1"]
    text = say("best_of_each", draw, scene.held_out, words)
    if not text.startswith((f"{words['k']} and", "Which")) and "show" not in text:
        text += f", with {words['k']} and {words['nm']}"
    return Question(
        "best_of_each",
        text,
        sql,
        4,
        ("top-per-group", *tags(found)),
        (table,),
        without(found, sql),
        keep(found),
    )


def ranking(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    key, by = pick(table, draw, "cat", solid=True), pick(table, draw, "number", "date", solid=True)
    if by is None or not table.shown:
        return None
    found = condition(table, draw, avoid=(by.name,)) if draw.chance(0.35) else None
    falling, split = draw.chance(0.6), key is not None and draw.chance(0.45)
    part = f"PARTITION BY {key.sql} " if key and split else ""
    sql = f"SELECT {shown(table)}, RANK() OVER ({part}{ordering(by, falling).strip()}) FROM {table.sql}{where(found)}"
    words = about(table, found) | superlative(by, draw, falling=falling)
    words |= {"k": draw.one(key.nouns)} if key else {}
    intent = "ranking_within" if split else "ranking"
    text = say(intent, draw, scene.held_out, words)
    return Question(
        intent, text, sql, 3, ("window-rank", *tags(found)), (table,), without(found, sql), keep(found)
    )


def over_time(scene: Scene) -> Question | None:
    """Running totals, and each row against the one before."""
    draw, table = scene.draw, scene.one()
    day, column = pick(table, draw, "date", solid=True), pick(table, draw, "number", solid=True)
    if day is None or column is None or column.is_year:
        return None
    found = condition(table, draw, avoid=(day.name, column.name)) if draw.chance(0.4) else None
    running = draw.chance(0.6)
    value = (
        f"SUM({column.sql}) OVER (ORDER BY {day.sql})"
        if running
        else f"{column.sql} - LAG({column.sql}) OVER (ORDER BY {day.sql})"
    )
    sql = f"SELECT {day.sql}, {value} FROM {table.sql}{where(found)}"
    words = about(table, found) | {"d": draw.one(day.nouns), "x": draw.one(column.nouns)}
    intent, kind = ("running", "running-total") if running else ("step", "lag")
    text = say(intent, draw, scene.held_out, words)
    return Question(intent, text, sql, 4, (kind, *tags(found)), (table,), without(found, sql), keep(found))
