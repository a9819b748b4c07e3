"""Levels 1 and 2: one table."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .columns import Column
from .conditions import ACTIVE, a, condition, conditions, is_passive, literal, number_in
from .question import (
    FUNCTIONS,
    Question,
    call,
    keep,
    ordering,
    pick,
    said_columns,
    shown,
    tags,
    where,
    with_columns,
    without,
)
from .scene import Placed, Scene
from .words import about, day_superlative, many, say, shown_as, superlative

ACTIVE_BASES = (
    "joined",
    "departed",
    "started",
    "moved in",
    "signed up",
    "arrived",
    "began",
    "fell",
    "registered",
)


def _asked(scene: Scene, intent: str, words: dict[str, str]) -> str:
    return say(intent, scene.draw, scene.held_out, words)


def listing(scene: Scene) -> Question | None:
    """Which ones: the name is implied."""
    draw, table = scene.draw, scene.one()
    found = conditions(table, draw, 1 if draw.chance(0.78) else 2)
    if found is None:
        return None
    intent = "list" if table.shown else "list_nameless"
    sql = f"SELECT {shown(table) or '*'} FROM {table.sql}{where(found)}"
    text = _asked(scene, intent, about(table, found))
    kind = "select" if table.shown else "star"
    return Question(intent, text, sql, 1, (kind, *tags(found)), (table,), without(found, sql), keep(found))


def whole(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    found = condition(table, draw)
    if found is None:
        return None
    sql = f"SELECT * FROM {table.sql}{where(found)}"
    text = _asked(scene, "star", about(table, found))
    return Question("star", text, sql, 1, ("star", *tags(found)), (table,), without(found, sql), keep(found))


def columns(scene: Scene) -> Question | None:
    """Columns by name, with or without the row's own name."""
    draw, table = scene.draw, scene.one()
    if len(table.others) < 2:
        return None
    chosen = draw.some(table.others, draw.weighted((1, 2, 3), (5, 4, 1)))
    found = conditions(table, draw, draw.weighted((0, 1, 2), (0.38, 0.54, 0.08)))
    words = about(table, found) | {"cols": said_columns(chosen, draw)}
    named = bool(table.shown) and draw.chance(0.6)
    if len(chosen) == 1 and not named:
        words["col1"] = words["cols"]
    names = ", ".join(([shown(table)] if named else []) + [column.sql for column in chosen])
    sql = f"SELECT {names} FROM {table.sql}{where(found)}"
    intent = "with_columns" if named else "columns"
    return Question(
        intent, _asked(scene, intent, words), sql, 1, ("columns", *tags(found)), (table,), without(found, sql), keep(found)
    )  # fmt: skip


def counting(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    found = conditions(table, draw, draw.weighted((0, 1, 2), (0.12, 0.74, 0.14)))
    sql = f"SELECT COUNT(*) FROM {table.sql}{where(found)}"
    text = _asked(scene, "count", about(table, found))
    return Question(
        "count", text, sql, 1, ("count", *tags(found)), (table,), without(found, sql), keep(found)
    )


def aggregate(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number")
    if column is None:
        return None
    word = draw.weighted(("average", "total", "highest", "lowest"), (5, 3 if not column.is_year else 0, 2, 2))
    found = conditions(table, draw, draw.weighted((0, 1, 2), (0.35, 0.57, 0.08)))
    words = about(table, found) | {"x": call(column, draw)}
    if column.how:
        words["how"] = column.how
    own = column.highest if word == "highest" else column.lowest if word == "lowest" else ()
    if own and not (found and found.before):
        words["sup"] = draw.one(own)
    intent = {"average": "average", "total": "total", "highest": "maximum", "lowest": "minimum"}[word]
    if word == "total" and column.countable:
        intent, words["x"] = "total_counted", column.nouns[0]
    sql = f"SELECT {FUNCTIONS[word]}({column.sql}) FROM {table.sql}{where(found)}"
    return Question(
        intent, _asked(scene, intent, words), sql, 1, ("aggregate", *tags(found)), (table,), without(found, sql), keep(found)
    )  # fmt: skip


def ends(scene: Scene) -> Question | None:
    """Both ends of a number, or one end of a date."""
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number", "date")
    if column is None:
        return None
    found = conditions(table, draw, draw.between(0, 1))
    words = about(table, found) | {"x": draw.one(column.nouns)}
    if column.kind == "number":
        intent, values = "both_ends", f"MIN({column.sql}), MAX({column.sql})"
    else:
        intent = draw.one(("first_day", "last_day", "last_day"))
        if is_passive(column.verb):
            words["verb"] = column.verb
        values = f"{'MIN' if intent == 'first_day' else 'MAX'}({column.sql})"
    sql = f"SELECT {values} FROM {table.sql}{where(found)}"
    return Question(
        intent, _asked(scene, intent, words), sql, 1, ("aggregate", *tags(found)), (table,), without(found, sql), keep(found)
    )  # fmt: skip


def top(scene: Scene) -> Question | None:
    """The first few, or the first, by a number or a day."""
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number", "number", "date", solid=True)
    if column is None or not table.shown:
        return None
    falling = draw.chance(0.62)
    found = conditions(table, draw, draw.weighted((0, 1), (0.65, 0.35)))
    words = about(table, found) | superlative(column, draw, falling=falling)
    if column.kind == "date":
        sup = day_superlative(column, draw, falling=falling)
        words |= {"sup": sup} if sup else {}
    one_only = draw.chance(0.5)
    limit = 1 if one_only else draw.one((2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 10))
    if "sup" in words and found and found.before:
        words.pop("sup")
    if table.table.is_person:
        words |= {"sup_who": words["sup"]} if "sup" in words else {}
        words["most_who"] = words["most"]
    words["n"] = str(limit) if draw.chance(0.85) or limit > 9 else NUMERALS[limit]
    intent = "best" if one_only else "top"
    further = _further(table, column, draw) if draw.chance(0.35) else []
    names = ", ".join([shown(table), *(one.sql for one in further)])
    body = f"SELECT {names} FROM {table.sql}{where(found)}"
    sql = body + ordering(column, falling) + f" LIMIT {limit}"
    kind = "order-one" if one_only else "order-limit"
    text = _asked(scene, intent, words)
    if further:
        text = with_columns(text, [shown_as(table, plural_names=False)], further, draw)
    return Question(
        intent, text, sql, 1, (kind, *tags(found)), (table,),
        (*without(found, sql), body), (*keep(found), words["n"]),
    )  # fmt: skip


def _further(table: Placed, first: Column, draw: Draw) -> list[Column]:
    """Columns to show beside the name: mostly the one that the question is about."""
    others = [column for column in table.others if column.name != first.name and column.kind != "bool"]
    if not others or draw.chance(0.65):
        return [first]
    return [draw.one(others), first] if draw.chance(0.4) else [draw.one(others)]


NUMERALS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def ordered(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    if not table.shown:
        return None
    found = conditions(table, draw, draw.weighted((0, 1), (0.55, 0.45)))
    words = about(table, found)
    body = f"SELECT {shown(table)}"
    tail = f" FROM {table.sql}{where(found)}"
    if draw.chance(0.2) and len(table.shown) == 1:
        intent, sql = "ordered_name", body + tail + f" ORDER BY {table.shown[0].sql}"
    else:
        column = pick(table, draw, "number", "date", solid=True)
        if column is None:
            return None
        falling, both = draw.chance(0.55), draw.chance(0.4)
        words |= superlative(column, draw, falling=falling)
        intent = "ordered_columns" if both else "ordered"
        sql = body + (f", {column.sql}" if both else "") + tail + ordering(column, falling)
    return Question(
        intent, _asked(scene, intent, words), sql, 1, ("order-by", *tags(found)), (table,),
        (*without(found, sql), sql.partition(" ORDER BY")[0]), keep(found),
    )  # fmt: skip


def distinct(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "cat")
    if column is None:
        return None
    found = condition(table, draw, avoid=(column.name,)) if draw.chance(0.25) else None
    counted = draw.chance(0.35)
    what = f"COUNT(DISTINCT {column.sql})" if counted else f"DISTINCT {column.sql}"
    sql = f"SELECT {what} FROM {table.sql}{where(found)}"
    noun = draw.one(column.nouns)
    intent = "count_distinct" if counted else "distinct"
    if found is None and draw.chance(0.6) and _is_of_one_table(scene, noun):
        intent += "_plain"
    elif not counted and draw.chance(0.15):
        intent = "distinct_order"
    if intent == "distinct_plain" and draw.chance(0.3):
        intent = "distinct_plain_order"
    if intent.endswith("_order"):
        sql += f" ORDER BY {column.sql}"
    words = about(table, found) | {"x": noun, "xs": many(noun)}
    weaker = sql.replace("DISTINCT ", "")
    return Question(
        intent, _asked(scene, intent, words), sql, 1, ("distinct", *tags(found)), (table,),
        (*without(found, sql), weaker), keep(found),
    )  # fmt: skip


def _is_of_one_table(scene: Scene, noun: str) -> bool:
    """Whether a word says which column is meant without the name of its table."""
    spoken = [noun for table in scene.tables for other in table.columns for noun in other.nouns]
    return spoken.count(noun) == 1 and all(noun not in table.table.nouns for table in scene.tables)


def lookup(scene: Scene) -> Question | None:
    """One thing by its name: a column, some, or everything."""
    draw, table = scene.draw, scene.one()
    if len(table.shown) != 1 or not table.others:
        return None
    name = table.shown[0]
    value = draw.one(table.spec(name)[2])
    kind = draw.weighted(("lookup", "lookup_all", "having_name"), (7, 1, 2))
    chosen = (
        draw.some(table.others, 2)
        if kind == "having_name" and len(table.others) > 1
        else [draw.one(table.others)]
    )
    words = {
        "v": str(value),
        "one": table.noun,
        "x": call(chosen[0], draw),
        "cols": said_columns(chosen, draw),
    }
    what = "*" if kind == "lookup_all" else ", ".join(column.sql for column in chosen)
    sql = f"SELECT {what} FROM {table.sql} WHERE {name.sql} = {literal(value)}"
    column = chosen[0]
    if column.kind == "bool" and kind == "lookup":
        return None
    text = _asked(scene, kind, words)
    if kind == "lookup" and column.ask and draw.chance(0.55):
        text = draw.one(column.ask).format(v=value)
    elif kind == "lookup" and column.kind == "date" and draw.chance(0.6):
        if is_passive(column.verb):
            text = _asked(scene, "lookup_day", words | {"verb": column.verb})
        elif column.verb in ACTIVE_BASES:
            text = _asked(scene, "lookup_day_active", words | {"verb": ACTIVE[column.verb]})
    return Question(
        kind, text, sql, 1, ("lookup",), (table,), (sql.partition(" WHERE")[0],), (str(value),)
    )  # fmt: skip


def choice(scene: Scene) -> Question | None:
    """CASE WHEN."""
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "number", solid=True)
    if column is None or not table.shown:
        return None
    yes, no = draw.one((("high", "low"), ("yes", "no"), ("big", "small"), ("A", "B"), ("above", "below")))
    number = number_in(column, draw, 0.3, 0.7)
    word, sign = draw.one((("above", ">"), ("over", ">"), ("at least", ">="), ("below", "<")))
    found = condition(table, draw, avoid=(column.name,)) if draw.chance(0.3) else None
    noun = f"number of {column.nouns[0]}" if column.countable else draw.one(column.nouns)
    sql = (
        f"SELECT {shown(table)}, CASE WHEN {column.sql} {sign} {number} THEN '{yes}' ELSE '{no}' END "
        f"FROM {table.sql}{where(found)}"
    )
    words = about(table, found) | {"yes": yes, "no": no, "test": f"the {noun} is {word} {number}"}
    text = _asked(scene, "case", words)
    return Question(
        "case", text, sql, 2, ("case", *tags(found)), (table,), without(found, sql), (*keep(found), yes, no, str(number))
    )  # fmt: skip


def fallback(scene: Scene) -> Question | None:
    """COALESCE."""
    draw, table = scene.draw, scene.one()
    empty = [column for column in table.others if column.nullable and column.kind in ("text", "date", "cat")]
    if not empty or not table.shown:
        return None
    column, word = draw.one(empty), draw.one(("none", "unknown", "missing", "n/a"))
    found = condition(table, draw, avoid=(column.name,)) if draw.chance(0.3) else None
    sql = f"SELECT {shown(table)}, COALESCE({column.sql}, '{word}') FROM {table.sql}{where(found)}"
    noun = draw.one(column.nouns)
    words = about(table, found) | {"x": noun, "xs": many(noun), "word": word, "a_x": a(noun)}
    weaker = f"SELECT {shown(table)}, {column.sql} FROM {table.sql}{where(found)}"
    text = _asked(scene, "fallback", words)
    return Question(
        "fallback", text, sql, 2, ("coalesce", *tags(found)), (table,), (*without(found, sql), weaker), (*keep(found), word)
    )  # fmt: skip


def days_since(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    day = pick(table, draw, "date", solid=True)
    if day is None or not table.shown:
        return None
    found = condition(table, draw, avoid=(day.name,)) if draw.chance(0.3) else None
    until = f"2025-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
    sql = f"SELECT {shown(table)}, julianday('{until}') - julianday({day.sql}) FROM {table.sql}{where(found)}"
    noun = draw.one(day.nouns)
    words = about(table, found) | {"x": noun, "day": until}
    text = _asked(scene, "arithmetic", words)
    return Question(
        "arithmetic", text, sql, 2, ("date-arithmetic", *tags(found)), (table,), without(found, sql), (*keep(found), until)
    )  # fmt: skip


def product(scene: Scene) -> Question | None:
    """A price times a number of pieces, summed up."""
    draw = scene.draw
    fitting = [
        (table, price, pieces)
        for table in scene.tables
        for price in table.of_kind("number")
        for pieces in table.of_kind("number")
        if price.measure in ("price", "fee", "cost") and (pieces.countable or pieces.measure in PIECES)
    ]
    if not fitting:
        return None
    table, price, pieces = draw.one(fitting)
    found = condition(table, draw, avoid=(price.name, pieces.name)) if draw.chance(0.4) else None
    sql = f"SELECT SUM({price.sql} * {pieces.sql}) FROM {table.sql}{where(found)}"
    noun = draw.one(pieces.nouns)
    words = about(table, found) | {
        "x": draw.one(price.nouns),
        "y": f"number of {noun}" if pieces.countable else noun,
    }
    weaker = sql.replace(f" * {pieces.sql}", "")
    text = _asked(scene, "product", words)
    return Question(
        "product", text, sql, 2, ("arithmetic", *tags(found)), (table,), (*without(found, sql), weaker), keep(found)
    )  # fmt: skip


PIECES = ("stock", "quantity", "days", "hours")
