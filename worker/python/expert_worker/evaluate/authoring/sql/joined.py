"""Levels 2 and 3: two and three tables."""

from __future__ import annotations

from .conditions import COUNTED, Condition, condition, conditions, literal
from .question import FUNCTIONS, SAID, Question, keep, pick, shown, tags, where, without
from .scene import Placed, Scene
from .words import about, many, say, shown_as, things


def _pair(scene: Scene) -> tuple[Placed, Placed] | None:
    """A parent that has a name, and a table that refers to it."""
    pairs = [pair for pair in scene.pairs() if len(pair[0].shown) == 1]
    return scene.draw.one(pairs) if pairs else None


def join(parent: Placed, child: Placed) -> str:
    return f"{child.sql} JOIN {parent.sql} ON {child.sql}.{child.ref_sql} = {parent.sql}.{parent.key_sql}"


def _words(parent: Placed, child: Placed, found: Condition | None = None) -> dict[str, str]:
    words = about(child, found) | {
        "pone": parent.noun,
        "pplural": many(parent.noun),
        "pnm": shown_as(parent, plural_names=False),
        "cone": child.noun,
        "prep": child.prep,
    }
    if child.shown:
        words["cnm"] = shown_as(child, plural_names=True)
    if parent.table.is_person:
        words["np_who"] = words["np"]
    return words


def _name(parent: Placed) -> str:
    return f"{parent.sql}.{parent.shown[0].sql}"


def join_list(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None or not pair[1].shown:
        return None
    parent, child = pair
    found = condition(child, draw, qualified=True) if draw.chance(0.4) else None
    sql = f"SELECT {shown(child, qualified=True)}, {_name(parent)} FROM {join(parent, child)}{where(found)}"
    text = say("join_list", draw, scene.held_out, _words(parent, child, found))
    return Question("join_list", text, sql, 2, ("join", *tags(found)), pair, without(found, sql), keep(found))


def children_of(scene: Scene) -> Question | None:
    """What belongs to a thing by its name: which, how many, how much."""
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    value = draw.one(parent.spec(parent.shown[0])[2])
    found = condition(child, draw, qualified=True) if draw.chance(0.2) else None
    column = pick(child, draw, "number")
    intent = draw.weighted(("children_of", "children_count", "children_value"), (4, 4, 2))
    words = _words(parent, child, found) | {"v": str(value)}
    if intent == "children_value" and column is not None:
        word = draw.weighted(tuple(FUNCTIONS), (3, 0 if column.is_year else 3, 1, 1))
        what, words["f"], words["x"] = f"{FUNCTIONS[word]}({child.sql}.{column.sql})", draw.one(SAID[word]), draw.one(column.nouns)  # fmt: skip
    elif intent == "children_of" and child.shown:
        what = shown(child, qualified=True)
    else:
        intent, what = "children_count", "COUNT(*)"
    test = f"{_name(parent)} = {literal(value)}"
    if found and " OR " in found.sql:
        return None
    sql = f"SELECT {what} FROM {join(parent, child)} WHERE {test}{' AND ' + found.sql if found else ''}"
    weaker = [f"SELECT {what} FROM {join(parent, child)}{where(found)}"]
    if found:
        weaker.append(f"SELECT {what} FROM {join(parent, child)} WHERE {test}")
    text = say(intent, draw, scene.held_out, words)
    return Question(
        intent, text, sql, 2, ("join-named", *tags(found)), pair, tuple(weaker), (*keep(found), str(value))
    )


def parent_of(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None or len(pair[1].shown) != 1:
        return None
    parent, child = pair
    value = draw.one(child.spec(child.shown[0])[2])
    body = f"SELECT {_name(parent)} FROM {join(parent, child)}"
    sql = f"{body} WHERE {child.sql}.{child.shown[0].sql} = {literal(value)}"
    text = say("parent_of", draw, scene.held_out, _words(parent, child) | {"v": str(value)})
    return Question("parent_of", text, sql, 2, ("join-named",), pair, (body,), (str(value),))


def children_where(scene: Scene) -> Question | None:
    """What belongs to things with a condition."""
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    found = condition(parent, draw, qualified=True)
    if found is None:
        return None
    counted = not child.shown or draw.chance(0.4)
    what = "COUNT(*)" if counted else shown(child, qualified=True)
    sql = f"SELECT {what} FROM {join(parent, child)}{where(found)}"
    intent = "children_where_count" if counted else "children_where"
    words = _words(parent, child) | {"pp": things(parent, found)}
    text = say(intent, draw, scene.held_out, words)
    return Question(intent, text, sql, 2, ("join", *tags(found)), pair, without(found, sql), keep(found))


def join_group(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    found = condition(child, draw, qualified=True) if draw.chance(0.2) else None
    column = pick(child, draw, "number")
    words = _words(parent, child, found)
    intent, value, kind = "join_group", "COUNT(*)", "join-group"
    if column is not None and draw.chance(0.35):
        word = draw.weighted(tuple(FUNCTIONS), (3, 0 if column.is_year else 3, 1, 1))
        intent, value = "join_value", f"{FUNCTIONS[word]}({child.sql}.{column.sql})"
        words |= {"f": draw.one(SAID[word]), "x": draw.one(column.nouns)}
    sql = f"SELECT {_name(parent)}, {value} FROM {join(parent, child)}{where(found)} GROUP BY {_key(parent)}"
    text = say(intent, draw, scene.held_out, words)
    return Question(intent, text, sql, 3, (kind, *tags(found)), pair, without(found, sql), keep(found))


def _key(parent: Placed) -> str:
    return f"{parent.sql}.{parent.key_sql}"


def join_top(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    found = condition(child, draw, qualified=True) if draw.chance(0.15) else None
    column = pick(child, draw, "number")
    words = _words(parent, child, found)
    intent, value, limit, falling = "join_top", "COUNT(*)", 1, True
    if column is not None and not column.is_year and draw.chance(0.3):
        word = draw.weighted(("total", "average"), (3, 2))
        falling = draw.chance(0.75)
        intent, value = "join_best_value", f"{FUNCTIONS[word]}({child.sql}.{column.sql})"
        words |= {"f": word, "x": draw.one(column.nouns), "way": "highest" if falling else "lowest"}
        words |= {"way_who": words["way"]} if parent.table.is_person else {}
    elif draw.chance(0.3):
        intent, limit = "join_top_n", draw.between(2, 4)
        words["n"] = str(limit)
    body = f"SELECT {_name(parent)} FROM {join(parent, child)}{where(found)} GROUP BY {_key(parent)}"
    sql = f"{body} ORDER BY {value} {'DESC' if falling else 'ASC'} LIMIT {limit}"
    text = say(intent, draw, scene.held_out, words)
    return Question(
        intent, text, sql, 3, ("join-top", *tags(found)), pair, (*without(found, sql), body), keep(found)
    )


def join_having(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    found = condition(child, draw, qualified=True) if draw.chance(0.2) else None
    sign = draw.weighted((">", ">="), (3, 2))
    number = draw.between(1, 3)
    body = f"SELECT {_name(parent)} FROM {join(parent, child)}{where(found)} GROUP BY {_key(parent)}"
    sql = f"{body} HAVING COUNT(*) {sign} {number}"
    if number == 1 and sign == ">=":
        return None
    words = _words(parent, child, found) | {"w": draw.one(COUNTED[sign]), "n": str(number)}
    text = say("join_having", draw, scene.held_out, words)
    return Question(
        "join_having",
        text,
        sql,
        3,
        ("join-having", *tags(found)),
        pair,
        (*without(found, sql), body),
        keep(found),
    )


def membership(scene: Scene) -> Question | None:
    """Those with none, or with some."""
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    none = draw.chance(0.65)
    found = condition(child, draw) if draw.chance(0.4) else None
    outer = condition(parent, draw) if draw.chance(0.2) else None
    inside = f"SELECT {child.ref_sql} FROM {child.sql}{where(found)}"
    test = f"{parent.key_sql} {'NOT IN' if none else 'IN'} ({inside})"
    sql = f"SELECT {shown(parent)} FROM {parent.sql} WHERE {f'{outer.sql} AND ' if outer else ''}{test}"
    intent = "without_children" if none else "with_children"
    words = _words(parent, child, found) | {"pp": things(parent, outer)}
    weaker = [f"SELECT {shown(parent)} FROM {parent.sql}{where(outer)}"]
    if found:
        weaker.append(sql.replace(where(found), ""))
    if outer:
        weaker.append(f"SELECT {shown(parent)} FROM {parent.sql} WHERE {test}")
    text = say(intent, draw, scene.held_out, words)
    kind = "not-in-subquery" if none else "in-subquery"
    return Question(
        intent, text, sql, 3, (kind, *tags(found), *tags(outer)), pair, tuple(weaker), keep(found, outer)
    )


def left_count(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    sql = (
        f"SELECT {_name(parent)}, COUNT({child.sql}.{child.key_sql}) FROM {parent.sql} LEFT JOIN {child.sql} "
        f"ON {child.sql}.{child.ref_sql} = {_key(parent)} GROUP BY {_key(parent)}"
    )
    text = say("left_count", draw, scene.held_out, _words(parent, child))
    return Question("left_count", text, sql, 3, ("left-join",), pair, (sql.replace("LEFT ", ""),))


def two_joins(scene: Scene) -> Question | None:
    """A table, the one that it refers to, and the one that this refers to."""
    draw = scene.draw
    pairs = scene.pairs()
    chains = [
        (top, middle, child)
        for top, middle in pairs
        for other, child in pairs
        if other.name == middle.name and len(top.shown) == 1
    ]
    if not chains:
        return None
    top, middle, child = draw.one(chains)
    tables = f"{join(middle, child)} JOIN {top.sql} ON {middle.sql}.{middle.ref_sql} = {_key(top)}"
    words = _words(middle, child) | {"gone": top.noun, "mplural": many(middle.noun), "prep2": middle.prep}
    if child.shown and draw.chance(0.5):
        value = draw.one(top.spec(top.shown[0])[2])
        body = f"SELECT {shown(child, qualified=True)} FROM {tables}"
        sql = f"{body} WHERE {_name(top)} = {literal(value)}"
        text = say("two_joins", draw, scene.held_out, words | {"v": str(value)})
        return Question(
            "two_joins", text, sql, 3, ("two-joins",), (top, middle, child), (body,), (str(value),)
        )
    sql = f"SELECT {_name(top)}, COUNT(*) FROM {tables} GROUP BY {_key(top)}"
    text = say("two_joins_count", draw, scene.held_out, words)
    return Question("two_joins_count", text, sql, 3, ("two-joins",), (top, middle, child))


def set_operation(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.one()
    column = pick(table, draw, "cat", solid=True)
    if column is None:
        return None
    left = condition(table, draw, avoid=(column.name,))
    right = conditions(table, draw, 1) if left else None
    if left is None or right is None or column.name in right.columns:
        return None
    kind = draw.weighted(("union", "intersect", "except"), (1, 2, 2))
    sides = [f"SELECT {column.sql} FROM {table.sql}{where(side)}" for side in (left, right)]
    noun = draw.one(column.nouns)
    words = {"xs": many(noun), "left_np": things(table, left), "right_np": things(table, right)}
    text = say(kind, draw, scene.held_out, words)
    sql = f"{sides[0]} {kind.upper()} {sides[1]}"
    return Question(
        kind, text, sql, 3, (kind, *left.tags, *right.tags), (table,), tuple(sides), keep(left, right)
    )
