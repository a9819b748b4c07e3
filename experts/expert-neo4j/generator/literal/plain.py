"""Level 1 and 2: one kind of node."""

from __future__ import annotations

from .scene import Question, Scene, Side, conditions, said, tags, where, without

FUNCTIONS = {"average": "avg", "total": "sum", "highest": "max", "lowest": "min"}


def listing(scene: Scene) -> Question:
    draw, side = scene.draw, scene.side()
    columns = draw.some(side.node.columns, draw.between(1, 3))
    found = conditions(side, draw, draw.between(1, 2))
    cypher = f"MATCH {side.pattern}{where(found)} RETURN {', '.join(side.of(column) for column in columns)}"
    names = " and ".join(column.name for column in columns)
    text = draw.one(["Show the {n} of {p}{c}.", "List the {n} of all {p}{c}."])
    return Question(
        text.format(n=names, p=side.node.plural, c=said(found)),
        cypher,
        1,
        ("match", *tags(found)),
        without(cypher, found),
    )


def ordered(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    by = scene.pick(side, "int", "date")
    if by is None:
        return None
    columns = draw.some(side.node.columns, draw.between(1, 2))
    found = conditions(side, draw, draw.between(0, 1))
    falling, limit = draw.chance(0.5), draw.between(2, 4) if draw.chance(0.5) else None
    body = f"MATCH {side.pattern}{where(found)} RETURN {', '.join(side.of(column) for column in columns)}"
    cypher = f"{body} ORDER BY {side.of(by)}{' DESC' if falling else ''}{f' LIMIT {limit}' if limit else ''}"
    way = ("latest" if falling else "earliest") if by.kind == "date" else ("highest" if falling else "lowest")
    names = " and ".join(column.name for column in columns)
    amount = f"the {limit} {side.node.plural}" if limit else f"all {side.node.plural}"
    text = f"Show the {names} of {amount}{said(found)}, {way} {by.name} first."
    kind = "order-limit" if limit else "order-by"
    return Question(text, cypher, 1, (kind, *tags(found)), (*without(cypher, found), body))


def counting(scene: Scene) -> Question:
    draw, side = scene.draw, scene.side()
    found = conditions(side, draw, draw.between(1, 2))
    cypher = f"MATCH {side.pattern}{where(found)} RETURN count({side.variable})"
    text = f"How many {side.node.plural}{said(found)} are there?"
    return Question(text, cypher, 1, ("count", *tags(found)), without(cypher, found))


def aggregate(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    column = scene.pick(side, "int")
    if column is None:
        return None
    word = draw.one(list(FUNCTIONS))
    found = conditions(side, draw, draw.between(0, 2))
    cypher = f"MATCH {side.pattern}{where(found)} RETURN {FUNCTIONS[word]}({side.of(column)})"
    text = f"What is the {word} {column.name} of {side.node.plural}{said(found)}?"
    return Question(text, cypher, 1, ("aggregate", *tags(found)), without(cypher, found))


def distinct(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    column = scene.pick(side, "cat")
    if column is None:
        return None
    found = conditions(side, draw, draw.between(0, 2))
    counted = draw.chance(0.4)
    what = f"count(DISTINCT {side.of(column)})" if counted else f"DISTINCT {side.of(column)}"
    cypher = f"MATCH {side.pattern}{where(found)} RETURN {what}"
    text = f"{'Count' if counted else 'Show'} the distinct {column.name} of {side.node.plural}{said(found)}."
    return Question(
        text,
        cypher,
        1,
        ("distinct", *tags(found)),
        (*without(cypher, found), cypher.replace("DISTINCT ", "")),
    )


def group_count(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.start
    key, column = scene.pick(side, "cat"), scene.pick(side, "int")
    if key is None or column is None:
        return None
    word = draw.one(["", *FUNCTIONS])
    found = conditions(side, draw, draw.between(0, 1))
    value = f"{FUNCTIONS[word]}({side.of(column)})" if word else f"count({side.variable})"
    cypher = f"MATCH {side.pattern}{where(found)} RETURN {side.of(key)}, {value}"
    what = f"give the {word} {column.name} of" if word else "count"
    text = f"For each {key.name}, {what} the {side.node.plural}{said(found)}."
    return Question(text, cypher, 2, ("group", *tags(found)), without(cypher, found))


def choice(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    shown, judged = scene.pick(side, "name"), conditions(side, draw, 1)
    if shown is None or judged is None:
        return None
    yes, no = draw.one([("high", "low"), ("yes", "no"), ("big", "small"), ("new", "old")])
    found = conditions(side, draw, draw.between(0, 1))
    cypher = (
        f"MATCH {side.pattern}{where(found)} RETURN {side.of(shown)}, "
        f"CASE WHEN {judged.cypher} THEN '{yes}' ELSE '{no}' END"
    )
    text = f"Show the {shown.name} of {side.node.plural}{said(found)}, and '{yes}' for those {judged.text}, '{no}' for the others."
    return Question(text, cypher, 2, ("case", *tags(found)), without(cypher, found))


def above_average(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    shown, column = scene.pick(side, "name", "cat"), scene.pick(side, "int")
    if shown is None or column is None:
        return None
    words, sign = draw.one([("above", ">"), ("below", "<")])
    found = conditions(side, draw, draw.between(0, 1))
    other = Side(side.node, "b")
    cypher = (
        f"MATCH {side.pattern}{where(found)} WITH avg({side.of(column)}) AS mean "
        f"MATCH {other.pattern} WHERE {other.of(column)} {sign} mean RETURN {other.of(shown)}"
    )
    text = (
        f"Show the {shown.name} of {side.node.plural} whose {column.name} is {words} the average of "
        f"{'all ' if found is None else ''}{side.node.plural}{said(found)}."
    )
    return Question(text, cypher, 4, ("above-average", *tags(found)), without(cypher, found))


def union(scene: Scene) -> Question | None:
    draw, side = scene.draw, scene.side()
    shown = scene.pick(side, "name", "cat")
    left, right = conditions(side, draw, 1), conditions(side, draw, draw.between(1, 2))
    if shown is None or left is None or right is None:
        return None
    parts = [
        f"MATCH {side.pattern}{where(found)} RETURN {side.of(shown)} AS {shown.name}"
        for found in (left, right)
    ]
    text = f"Unite the {shown.name} of {side.node.plural} {left.text} with the {shown.name} of {side.node.plural} {right.text}."
    return Question(text, " UNION ".join(parts), 3, ("union", *tags(left, right)), tuple(parts))
