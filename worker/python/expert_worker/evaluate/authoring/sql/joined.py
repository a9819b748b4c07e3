"""Levels 2 and 3: two and three tables."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .columns import Column
from .conditions import COUNTED, Condition, a, condition, conditions, literal
from .question import FUNCTIONS, SAID, Question, keep, pick, shown, tags, where, with_columns, without
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
    intent = draw.weighted(("children_of", "children_count", "children_value"), (5, 3, 2))
    further: list[Column] = []
    tail = ""
    words = _words(parent, child, found) | {"v": str(value)}
    if intent == "children_value" and column is not None:
        word = draw.weighted(tuple(FUNCTIONS), (3, 0 if column.is_year else 3, 1, 1))
        what, words["f"], words["x"] = f"{FUNCTIONS[word]}({child.sql}.{column.sql})", draw.one(SAID[word]), draw.one(column.nouns)  # fmt: skip
    elif intent == "children_of" and child.shown:
        what = shown(child, qualified=True)
        if child.others and draw.chance(0.4):
            further = draw.some(child.others, draw.weighted((1, 2), (3, 1)))
            what = ", ".join([what, *(f"{child.sql}.{one.sql}" for one in further)])
        day = pick(child, draw, "date", solid=True)
        if day is not None and draw.chance(0.2):
            tail = f" ORDER BY {child.sql}.{day.sql} DESC"
    else:
        intent, what = "children_count", "COUNT(*)"
    test = f"{_name(parent)} = {literal(value)}"
    if found and " OR " in found.sql:
        return None
    sql = f"SELECT {what} FROM {join(parent, child)} WHERE {test}{' AND ' + found.sql if found else ''}{tail}"
    weaker = [f"SELECT {what} FROM {join(parent, child)}{where(found)}{tail}"]
    if found:
        weaker.append(f"SELECT {what} FROM {join(parent, child)} WHERE {test}{tail}")
    text = say(intent, draw, scene.held_out, words)
    if tail:
        text = f"{text.rstrip('.?')}, {draw.one(('newest', 'latest', 'most recent'))} first"
    if further:
        text = with_columns(text, [shown_as(child, plural_names=False)], further, draw)
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
    further = draw.some(child.others, 1) if not counted and draw.chance(0.25) else []
    what = ", ".join([what, *(f"{child.sql}.{one.sql}" for one in further)])
    sql = f"SELECT {what} FROM {join(parent, child)}{where(found)}"
    intent = "children_where_count" if counted else "children_where"
    words = _words(parent, child) | {"pp": things(parent, found)}
    text = say(intent, draw, scene.held_out, words)
    if further:
        text = with_columns(text, [shown_as(child, plural_names=False)], further, draw)
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
        if word == "total" and draw.chance(0.4):
            intent = "join_total"
    shown_by, key = _grouped_by(parent, child, words, draw)
    sql = f"SELECT {shown_by}, {value} FROM {join(parent, child)}{where(found)} GROUP BY {key}"
    text = say(intent, draw, scene.held_out, words)
    return Question(
        intent, text, sql, _level(found), (kind, *tags(found)), pair, without(found, sql), keep(found)
    )


def _grouped_by(parent: Placed, child: Placed, words: dict[str, str], draw: Draw) -> tuple[str, str]:
    """What a group shows and what makes it: each parent, or what several parents have in common."""
    column = pick(parent, draw, "cat", solid=True)
    if column is None or draw.chance(0.65):
        return _name(parent), _key(parent)
    noun = draw.one(column.nouns)
    if any(noun in other.nouns for other in child.columns) or draw.chance(0.3):
        noun = f"{parent.noun} {noun}"
    words |= {"pone": noun, "pnm": noun, "pplural": many(noun)}
    name = f"{parent.sql}.{column.sql}"
    return name, name


def _level(found: Condition | None) -> int:
    """Groups of a table by another are asked for every day; with a condition they are a step harder."""
    return 3 if found else 2


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
    shown_by, key = (_name(parent), _key(parent)) if "way_who" in words else _grouped_by(parent, child, words, draw)  # fmt: skip
    body = f"SELECT {shown_by} FROM {join(parent, child)}{where(found)} GROUP BY {key}"
    text = say(intent, draw, scene.held_out, words)
    if draw.chance(0.3):
        body = body.replace(" FROM", f", {value} FROM", 1)
        text = _and_value(text, words, value, draw)
    sql = f"{body} ORDER BY {value} {'DESC' if falling else 'ASC'} LIMIT {limit}"
    return Question(
        intent,
        text,
        sql,
        _level(found),
        ("join-top", *tags(found)),
        pair,
        (*without(found, sql), body),
        keep(found),
    )


def _and_value(text: str, words: dict[str, str], value: str, draw: Draw) -> str:
    """Asks for the number beside the name."""
    forms: tuple[str, ...]
    if value == "COUNT(*)":
        forms = ("{t}, and how many", "{t}, with the number", "{t}, {p} and number", "{t} ({p}, count)", "{t}, and how many each has")  # fmt: skip
    else:
        forms = ("{t}, with the value", "{t}, and the {f} {x}", "{t}, {p} and {f} {x}", "{t} ({p}, {f})")
    return draw.one(forms).format(t=text.rstrip(".?"), p=words["pnm"], f=words.get("f"), x=words.get("x"))


def join_having(scene: Scene) -> Question | None:
    draw, pair = scene.draw, _pair(scene)
    if pair is None:
        return None
    parent, child = pair
    found = condition(child, draw, qualified=True) if draw.chance(0.2) else None
    sign = draw.weighted((">", ">="), (3, 2))
    number = draw.between(1, 3)
    body = f"SELECT {_name(parent)} FROM {join(parent, child)}{where(found)} GROUP BY {_key(parent)}"
    if number == 1 and sign == ">=":
        return None
    words = _words(parent, child, found) | {"w": draw.one(COUNTED[sign]), "n": str(number)}
    text = say("join_having", draw, scene.held_out, words)
    if draw.chance(0.3):
        body = body.replace(" FROM", ", COUNT(*) FROM", 1)
        text = _and_value(text, words, "COUNT(*)", draw)
    sql = f"{body} HAVING COUNT(*) {sign} {number}"
    return Question(
        "join_having",
        text,
        sql,
        _level(found),
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
        intent,
        text,
        sql,
        3 if found or outer else 2,
        (kind, *tags(found), *tags(outer)),
        pair,
        tuple(weaker),
        keep(found, outer),
    )


def unlinked(scene: Scene) -> Question | None:
    """Rows whose key to the other table is missing."""
    draw, pair = scene.draw, _pair(scene)
    if pair is None or not pair[1].loose or not pair[1].shown:
        return None
    parent, child = pair
    counted = draw.chance(0.35)
    sql = f"SELECT {'COUNT(*)' if counted else shown(child)} FROM {child.sql} WHERE {child.ref_sql} IS NULL"
    intent = "unlinked_count" if counted else "unlinked"
    text = say(intent, draw, scene.held_out, _words(parent, child) | {"a_p": a(parent.noun)})
    return Question(intent, text, sql, 1, ("null",), (child,), (sql.partition(" WHERE")[0],))


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
