"""Levels 2 and 3: two tables."""

from __future__ import annotations

from .conditions import Condition, conditions
from .plain import FUNCTIONS, said, tags, where, without
from .scene import Question, Scene, people_call, pick


def _some(scene: Scene, *, child_only: bool = False) -> Condition | None:
    """No, one or two conditions on the joined tables."""
    draw = scene.draw
    table = scene.child if child_only or draw.chance(0.5) else scene.parent
    return conditions(table, draw, draw.weighted([0, 1, 2], [0.35, 0.45, 0.2]), qualified=True)


def _both(scene: Scene) -> tuple[str, str]:
    return scene.parent.name, scene.child.name


def join_list(scene: Scene) -> Question | None:
    draw, parent, child = scene.draw, scene.parent, scene.child
    left, right = pick(parent, draw, "name", "cat", "int"), pick(child, draw, "name", "cat", "int", "date")
    if left is None or right is None:
        return None
    found = _some(scene)
    sql = f"SELECT {parent.name}.{left.name}, {child.name}.{right.name} FROM {scene.join}{where(found)}"
    text = f"Join {child.name} to {parent.name}: show {parent.name}.{left.name} and {child.name}.{right.name}{said(found)}"
    extra: tuple[str, ...] = ()
    by = pick(child, draw, "int", "date", solid=True)
    if by is not None and draw.chance(0.4):
        falling = draw.chance(0.5)
        sql += f" ORDER BY {child.name}.{by.name} {'DESC' if falling else 'ASC'}"
        text += f", {'highest' if falling else 'lowest'} {child.name}.{by.name} first"
        extra = ("order-by",)
    return Question(f"{text}.", sql, 2, ("join", *extra, *tags(found)), _both(scene), without(found, sql))


def join_group(scene: Scene) -> Question | None:
    draw, parent, child = scene.draw, scene.parent, scene.child
    key, column = pick(parent, draw, "name", "cat", solid=True), pick(child, draw, "int")
    if key is None or column is None:
        return None
    word = draw.one(["", *FUNCTIONS])
    value = f"{FUNCTIONS[word]}({child.name}.{column.name})" if word else "COUNT(*)"
    found = _some(scene, child_only=True)
    name = f"{parent.name}.{key.name}"
    sql = f"SELECT {name}, {value} FROM {scene.join}{where(found)} GROUP BY {name}"
    what = f"show the {word} {child.name}.{column.name}" if word else "count the rows"
    text = f"Join {child.name} to {parent.name}: for each {name}, {what}{said(found)}"
    extra: tuple[str, ...] = ()
    if draw.chance(0.35):
        number = draw.between(2, 4)
        sql += f" HAVING COUNT(*) >= {number}"
        text += f", where the count is at least {number}"
        extra = ("join-having",)
    return Question(
        f"{text}.", sql, 3, ("join-group", *extra, *tags(found)), _both(scene), without(found, sql)
    )


def left_count(scene: Scene) -> Question | None:
    draw, parent, child = scene.draw, scene.parent, scene.child
    key = pick(parent, draw, "name")
    found = conditions(parent, draw, draw.between(0, 2), qualified=True)
    if key is None:
        return None
    name = f"{parent.name}.{key.name}"
    sql = (
        f"SELECT {name}, COUNT({child.name}.id) FROM {scene.join.replace(' JOIN ', ' LEFT JOIN ')}"
        f"{where(found)} GROUP BY {name}"
    )
    text = (
        f"Left join {parent.name} to {child.name}: for each {name}, count {child.name}{said(found)}, also 0."
    )
    weaker = (*without(found, sql), sql.replace("LEFT ", ""))
    return Question(text, sql, 3, ("left-join", *tags(found)), _both(scene), weaker)


def membership(scene: Scene) -> Question | None:
    """IN and NOT IN over a subquery."""
    draw, parent, child = scene.draw, scene.parent, scene.child
    shown = pick(parent, draw, "name", "cat", "int")
    if shown is None:
        return None
    found = conditions(child, draw, draw.between(0, 2))
    outer = conditions(parent, draw, draw.between(0, 1))
    none = draw.chance(0.5)
    inside = f"SELECT {scene.ref} FROM {child.name}{where(found)}"
    test = f"id {'NOT IN' if none else 'IN'} ({inside})"
    sql = f"SELECT {shown.name} FROM {parent.name} WHERE {_guard(outer)}{test}"
    text = (
        f"Show the {shown.phrase} of {people_call(parent)}{said(outer)} that have "
        f"{'no' if none else 'some'} {people_call(child)}{said(found)}."
    )
    weaker = [f"SELECT {shown.name} FROM {parent.name}{where(outer)}"]
    if outer:
        weaker.append(f"SELECT {shown.name} FROM {parent.name} WHERE {test}")
    kind = "not-in-subquery" if none else "in-subquery"
    return Question(text, sql, 3, (kind, *tags(found), *tags(outer)), _both(scene), tuple(weaker))


def _guard(outer: Condition | None) -> str:
    return f"{outer.sql} AND " if outer else ""


def exists(scene: Scene) -> Question | None:
    """A subquery that looks at the outer row."""
    draw, parent, child = scene.draw, scene.parent, scene.child
    shown = pick(parent, draw, "name")
    outer, inner = pick(parent, draw, "int", solid=True), pick(child, draw, "int", solid=True)
    found = conditions(child, draw, draw.between(0, 1), qualified=True)
    if shown is None or outer is None or inner is None:
        return None
    words, sign = draw.one([("above", ">"), ("below", "<")])
    sql = (
        f"SELECT {shown.name} FROM {parent.name} WHERE EXISTS (SELECT 1 FROM {child.name} WHERE "
        f"{child.name}.{scene.ref} = {parent.name}.id AND {child.name}.{inner.name} {sign} {parent.name}.{outer.name}"
        f"{' AND ' + found.sql if found else ''})"
    )
    text = (
        f"Show the {shown.phrase} of {people_call(parent)} with some {child.noun}{said(found)} whose {inner.phrase} "
        f"is {words} the {parent.noun}'s {outer.phrase}."
    )
    return Question(
        text, sql, 4, ("exists", *tags(found)), _both(scene), (f"SELECT {shown.name} FROM {parent.name}",)
    )


def set_operation(scene: Scene) -> Question | None:
    draw, table = scene.draw, scene.table()
    column = pick(table, draw, "cat", solid=True)
    left, right = conditions(table, draw, 1), conditions(table, draw, draw.between(1, 2))
    if column is None or left is None or right is None:
        return None
    kind, form = draw.one([
        ("UNION", "Unite the {p} of {t} {l} with the {p} of {t} {r}."),
        ("INTERSECT", "Intersect the {p} of {t} {l} with the {p} of {t} {r}."),
        ("EXCEPT", "Show the {p} of {t} {l} except the {p} of {t} {r}."),
    ])  # fmt: skip
    sides = [f"SELECT {column.name} FROM {table.name} WHERE {side.sql}" for side in (left, right)]
    sql = f"{sides[0]} {kind} {sides[1]}"
    text = form.format(p=column.phrase, t=people_call(table), l=left.text, r=right.text)
    return Question(text, sql, 3, (kind.lower(), *left.tags, *right.tags), (table.name,), tuple(sides))
