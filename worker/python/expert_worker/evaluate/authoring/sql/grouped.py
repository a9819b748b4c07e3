"""Level 2: groups of one table."""

from __future__ import annotations

from .columns import Column
from .conditions import COUNTED, Condition, a, condition, is_passive
from .question import FUNCTIONS, SAID, Question, keep, pick, tags, where, without
from .scene import Placed, Scene
from .words import about, many, say, superlative


def _setting(scene: Scene, share: float = 0.35) -> tuple[Placed, Column, Condition | None] | None:
    draw, table = scene.draw, scene.one()
    key = pick(table, draw, "cat", solid=True)
    if key is None:
        return None
    return table, key, condition(table, draw, avoid=(key.name,)) if draw.chance(share) else None


def _words(scene: Scene, table: Placed, key: Column, found: Condition | None) -> dict[str, str]:
    noun = scene.draw.one(key.nouns)
    return about(table, found) | {"k": noun, "ks": many(noun)}


def group_count(scene: Scene) -> Question | None:
    draw, setting = scene.draw, _setting(scene)
    if setting is None:
        return None
    table, key, found = setting
    sql = f"SELECT {key.sql}, COUNT(*) FROM {table.sql}{where(found)} GROUP BY {key.sql}"
    intent: str = "group_count"
    extra: tuple[str, ...] = ("group-count",)
    if draw.chance(0.15):
        intent, extra = "group_count_order", ("group-count", "group-order")
        sql += " ORDER BY COUNT(*) DESC"
    text = say(intent, draw, scene.held_out, _words(scene, table, key, found))
    return Question(intent, text, sql, 2, (*extra, *tags(found)), (table,), without(found, sql), keep(found))


def group_value(scene: Scene) -> Question | None:
    draw, setting = scene.draw, _setting(scene, 0.2)
    if setting is None:
        return None
    table, key, found = setting
    column = pick(table, draw, "number")
    if column is None:
        return None
    word = draw.weighted(tuple(FUNCTIONS), (5, 0 if column.is_year else 3, 2, 2))
    value = f"{FUNCTIONS[word]}({column.sql})"
    words = _words(scene, table, key, found) | {"x": draw.one(column.nouns)}
    sql = f"SELECT {key.sql}, {value} FROM {table.sql}{where(found)} GROUP BY {key.sql}"
    intent: str = "group_value"
    extra: tuple[str, ...] = ("group-value",)
    if draw.chance(0.2):
        falling = draw.chance(0.6)
        order = {key: text for key, text in superlative(column, draw, falling=falling).items() if key != "x"}
        words |= order | {"way": "highest" if falling else "lowest"}
        intent, extra = "group_value_order", ("group-value", "group-order")
        sql += f" ORDER BY {value} {'DESC' if falling else 'ASC'}"
    words["f"] = draw.one(SAID[word])
    if word == "total" and intent == "group_value" and draw.chance(0.4):
        intent = "group_total"
    text = say(intent, draw, scene.held_out, words)
    return Question(intent, text, sql, 2, (*extra, *tags(found)), (table,), without(found, sql), keep(found))


def group_top(scene: Scene) -> Question | None:
    """Which group is the largest, by number or by a value."""
    draw, setting = scene.draw, _setting(scene, 0.25)
    if setting is None:
        return None
    table, key, found = setting
    words = _words(scene, table, key, found)
    column = pick(table, draw, "number")
    falling = draw.chance(0.75)
    if column is not None and draw.chance(0.35):
        word = draw.weighted(("average", "total"), (3, 0 if column.is_year else 2))
        value, intent = f"{FUNCTIONS[word]}({column.sql})", "group_best_value"
        words |= {"f": word, "x": draw.one(column.nouns), "way": "highest" if falling else "lowest"}
    else:
        value, intent = "COUNT(*)", "group_top" if falling else "group_bottom"
    body = f"SELECT {key.sql} FROM {table.sql}{where(found)} GROUP BY {key.sql}"
    sql = f"{body} ORDER BY {value} {'DESC' if falling else 'ASC'} LIMIT 1"
    text = say(intent, draw, scene.held_out, words)
    return Question(
        intent, text, sql, 2, ("group-top", *tags(found)), (table,), (*without(found, sql), body), keep(found)
    )


def having(scene: Scene) -> Question | None:
    draw, setting = scene.draw, _setting(scene, 0.2)
    if setting is None:
        return None
    table, key, found = setting
    column = pick(table, draw, "number", solid=True)
    sign = draw.weighted((">", ">=", "<"), (5, 3, 2))
    body = f"SELECT {key.sql} FROM {table.sql}{where(found)} GROUP BY {key.sql}"
    words = _words(scene, table, key, found)
    if column is None or column.is_year or draw.chance(0.7):
        number = draw.between(2, 6)
        intent, value, kind = "having_count", "COUNT(*)", "having-count"
        words |= {"w": draw.one(COUNTED[sign])}
    else:
        word = draw.weighted(("average", "total"), (3, 2))
        share = draw.between(35, 65)
        number = int(column.low + (column.high - column.low) * share / 100) * (1 if word == "average" else 5)
        step = 1 if number < 30 else 5 if number < 200 else 100
        number = max(1, round(number / step) * step)
        intent, value, kind = "having_value", f"{FUNCTIONS[word]}({column.sql})", "having-value"
        words |= {"f": word, "a_f": a(word), "x": draw.one(column.nouns), "w": draw.one(BY_SIGN[sign])}
    sql = f"{body} HAVING {value} {sign} {number}"
    text = say(intent, draw, scene.held_out, words | {"n": str(number)})
    return Question(
        intent, text, sql, 2, (kind, *tags(found)), (table,), (*without(found, sql), body), (*keep(found), str(number))
    )  # fmt: skip


BY_SIGN = {">": ("more than", "over", "above"), "<": ("less than", "under", "below"), ">=": ("at least",)}


def per_period(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    day = pick(table, draw, "date", solid=True)
    if day is None:
        return None
    found = condition(table, draw, avoid=(day.name,)) if draw.chance(0.2) else None
    period, form = draw.weighted((("per_year", "%Y"), ("per_month", "%Y-%m")), (4, 1))
    part = f"strftime('{form}', {day.sql})"
    words = about(table, found) | {"x": draw.one(day.nouns)}
    if period == "per_year" and is_passive(day.verb) and draw.chance(0.6):
        period, words = "per_year_verb", words | {"verb": day.verb}
    value = "COUNT(*)"
    column = pick(table, draw, "number")
    if column is not None and not column.is_year and period != "per_year_verb" and draw.chance(0.3):
        period, value, words["v"] = f"{period}_total", f"SUM({column.sql})", draw.one(column.nouns)
    sql = f"SELECT {part}, {value} FROM {table.sql}{where(found)} GROUP BY {part}"
    text = say(period, draw, scene.held_out, words)
    return Question(
        period, text, sql, 2, ("group-date", *tags(found)), (table,), without(found, sql), keep(found)
    )  # fmt: skip


def share(scene: Scene) -> Question | None:
    draw, setting = scene.draw, _setting(scene, 0.4)
    if setting is None:
        return None
    table, key, found = setting
    tail = f"FROM {table.sql}{where(found)}"
    sql = f"SELECT {key.sql}, 100.0 * COUNT(*) / (SELECT COUNT(*) {tail}) {tail} GROUP BY {key.sql}"
    text = say("share", draw, scene.held_out, _words(scene, table, key, found))
    return Question("share", text, sql, 3, ("share", *tags(found)), (table,), (), keep(found))
