"""Levels 2 to 4: nodes and how they are linked."""

from __future__ import annotations

from .plain import FUNCTIONS
from .scene import Condition, Question, Scene, conditions, number, said, tags, where, without


def _either(scene: Scene) -> tuple[Condition | None, Condition | None]:
    """Conditions on neither, one or both ends."""
    draw = scene.draw
    start = conditions(scene.start, draw, draw.between(0, 1))
    return start, conditions(scene.end, draw, draw.between(0, 1 if start else 2))


def hop(scene: Scene) -> Question | None:
    start, end, link = scene.start, scene.end, scene.world.link
    left, right = scene.pick(start, "name", "cat", "int"), scene.pick(end, "name", "cat", "int")
    if left is None or right is None:
        return None
    first, second = _either(scene)
    cypher = f"MATCH {scene.path}{where(first, second)} RETURN {start.of(left)}, {end.of(right)}"
    text = (
        f"Show the {left.name} of {start.node.plural}{said(first)} and the {right.name} of the "
        f"{end.node.plural}{said(second)} that they {link.said}."
    )
    return Question(text, cypher, 2, ("hop", *tags(first, second)), without(cypher, first, second))


def across(scene: Scene) -> Question | None:
    """One end is asked for, the other one is described."""
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    forward = draw.chance(0.5)
    asked, described = (start, end) if forward else (end, start)
    shown, found = scene.pick(asked, "name", "cat"), conditions(described, draw, draw.between(1, 2))
    if shown is None or found is None:
        return None
    cypher = f"MATCH {scene.path}{where(found)} RETURN DISTINCT {asked.of(shown)}"
    if forward:
        text = f"Show the distinct {shown.name} of {start.node.plural} that {link.said} {end.node.plural}{said(found)}."
    else:
        text = f"Show the distinct {shown.name} of {end.node.plural} that {start.node.plural}{said(found)} {link.said}."
    return Question(
        text, cypher, 2, ("across", *tags(found)), (*without(cypher, found), cypher.replace("DISTINCT ", ""))
    )


def link_property(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    left, right, column = scene.pick(start, "name", "cat"), scene.pick(end, "name", "cat"), link.columns[0]
    if left is None or right is None:
        return None
    words, sign = draw.one([("above", ">"), ("below", "<")])
    limit, found = number(column, draw), conditions(end, draw, draw.between(0, 1))
    pattern = scene.path.replace("-[:", "-[link:")
    guard = f" AND {found.cypher}" if found else ""
    cypher = f"MATCH {pattern} WHERE link.{column.name} {sign} {limit}{guard} RETURN {start.of(left)}, {end.of(right)}"
    text = (
        f"Show the {left.name} of {start.node.plural} and the {right.name} of {end.node.plural}{said(found)} "
        f"that they {link.said} with {column.name} {words} {limit}."
    )
    return Question(
        text,
        cypher,
        3,
        ("link-property", *tags(found)),
        (f"MATCH {scene.path} RETURN {start.of(left)}, {end.of(right)}",),
    )


def count_links(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    key = scene.pick(end, "name", "cat")
    if key is None:
        return None
    first, second = _either(scene)
    cypher = f"MATCH {scene.path}{where(first, second)} RETURN {end.of(key)}, count({start.variable})"
    text = f"For each {key.name} of {end.node.plural}{said(second)}, count the {start.node.plural}{said(first)} that {link.said} them"
    extra: tuple[str, ...] = ()
    if draw.chance(0.3):
        cypher += f" ORDER BY count({start.variable}) DESC, {end.of(key)}"
        text += f", highest count first, then by {key.name}"
        extra = ("group-order",)
    return Question(
        f"{text}.", cypher, 3, ("count-links", *extra, *tags(first, second)), without(cypher, first, second)
    )


def measure_links(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    key, column = scene.pick(end, "name", "cat"), scene.pick(start, "int")
    if key is None or column is None:
        return None
    word, found = draw.one(list(FUNCTIONS)), conditions(start, draw, draw.between(0, 1))
    cypher = f"MATCH {scene.path}{where(found)} RETURN {end.of(key)}, {FUNCTIONS[word]}({start.of(column)})"
    text = (
        f"For each {key.name} of {end.node.plural}, give the {word} {column.name} of the "
        f"{start.node.plural}{said(found)} that {link.said} them."
    )
    return Question(text, cypher, 3, ("measure-links", *tags(found)), without(cypher, found))


def optional(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    key, found = scene.pick(start, "name"), conditions(start, draw, draw.between(0, 2))
    if key is None:
        return None
    arrow = scene.path.removeprefix(start.pattern)
    cypher = (
        f"MATCH {start.pattern}{where(found)} OPTIONAL MATCH ({start.variable}){arrow} "
        f"RETURN {start.of(key)}, count({end.variable})"
    )
    text = f"For all {start.node.plural}{said(found)}, also those with none, show the {key.name} and how many {end.node.plural} they {link.said}."
    plain = f"MATCH {scene.path}{where(found)} RETURN {start.of(key)}, count({end.variable})"
    return Question(text, cypher, 3, ("optional-match", *tags(found)), (*without(cypher, found), plain))


def absent(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    shown, found = scene.pick(start, "name", "cat", "int"), conditions(start, draw, draw.between(0, 1))
    inner = conditions(end, draw, draw.between(0, 1))
    if shown is None:
        return None
    arrow = scene.path.removeprefix(start.pattern)
    guard = f"{found.cypher} AND " if found else ""
    cypher = (
        f"MATCH {start.pattern} WHERE {guard}NOT EXISTS {{ MATCH ({start.variable}){arrow}{where(inner)} }} "
        f"RETURN {start.of(shown)}"
    )
    text = f"Show the {shown.name} of {start.node.plural}{said(found)} that {link.said} no {end.node.plural}{said(inner)}."
    return Question(
        text,
        cypher,
        3,
        ("not-exists", *tags(found, inner)),
        (f"MATCH {start.pattern}{where(found)} RETURN {start.of(shown)}",),
    )


def pair(scene: Scene) -> Question | None:
    """The loop: two nodes of one kind."""
    draw, start, other, loop = scene.draw, scene.start, scene.other, scene.world.loop
    left, right = scene.pick(start, "name"), scene.pick(other, "name", "cat", "int")
    if left is None or right is None:
        return None
    first, second = conditions(start, draw, draw.between(0, 1)), conditions(other, draw, draw.between(0, 1))
    cypher = f"MATCH {scene.loop}{where(first, second)} RETURN {start.of(left)}, {other.of(right)}"
    text = (
        f"Show the {left.name} of {start.node.plural}{said(first)} and the {right.name} of other "
        f"{start.node.plural}{said(second)} that they {loop.said}."
    )
    return Question(text, cypher, 2, ("loop", *tags(first, second)), without(cypher, first, second))


def compared(scene: Scene) -> Question | None:
    start, other, loop = scene.start, scene.other, scene.world.loop
    shown, column = scene.pick(start, "name"), scene.pick(start, "int", "date")
    if shown is None or column is None:
        return None
    words, sign = scene.draw.one([("higher", ">"), ("lower", "<")])
    found = conditions(start, scene.draw, scene.draw.between(0, 1))
    guard = f" AND {found.cypher}" if found else ""
    cypher = f"MATCH {scene.loop} WHERE {start.of(column)} {sign} {other.of(column)}{guard} RETURN {start.of(shown)}, {other.of(shown)}"
    text = (
        f"Show the {shown.name} of {start.node.plural}{said(found)} and of the others that they {loop.said}, "
        f"where the first has a {words} {column.name}."
    )
    return Question(
        text,
        cypher,
        3,
        ("compared", *tags(found)),
        (f"MATCH {scene.loop} RETURN {start.of(shown)}, {other.of(shown)}",),
    )


def far(scene: Scene) -> Question | None:
    """Two hops: over the loop to the other kind of node."""
    draw, start, end = scene.draw, scene.start, scene.last
    left, right = scene.pick(start, "name"), scene.pick(end, "name", "cat")
    if left is None or right is None:
        return None
    found, goal = conditions(start, draw, draw.between(0, 1)), conditions(end, draw, draw.between(0, 1))
    link, loop = scene.world.link, scene.world.loop
    cypher = (
        f"MATCH {scene.loop}-[:{link.type}]->{end.pattern}{where(found, goal)} "
        f"RETURN {start.of(left)}, {end.of(right)}"
    )
    text = (
        f"Show the {left.name} of {start.node.plural}{said(found)} and the {right.name} of the {end.node.plural}"
        f"{said(goal)} that others {link.said} whom they {loop.said}."
    )
    return Question(text, cypher, 4, ("two-hops", *tags(found, goal)), without(cypher, found, goal))


def reach(scene: Scene) -> Question | None:
    draw, start, other, loop = scene.draw, scene.start, scene.other, scene.world.loop
    shown, found = scene.pick(other, "name", "cat", "int"), conditions(start, draw, draw.between(1, 2))
    if shown is None or found is None:
        return None
    steps = draw.between(2, 3)
    pattern = scene.loop.replace("]->", f"*1..{steps}]->")
    cypher = f"MATCH {pattern}{where(found)} RETURN DISTINCT {other.of(shown)}"
    text = (
        f"Show the distinct {shown.name} of {start.node.plural} that {start.node.plural}{said(found)} {loop.said} "
        f"over one to {'two' if steps == 2 else 'three'} steps."
    )
    return Question(
        text,
        cypher,
        4,
        ("reach", *tags(found)),
        (*without(cypher, found), cypher.replace(f"*1..{steps}", "")),
    )


def busy(scene: Scene) -> Question | None:
    """Groups of a certain size: WITH and WHERE."""
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    shown = scene.pick(end, "name")
    if shown is None:
        return None
    found, (words, sign) = (
        conditions(start, draw, draw.between(0, 1)),
        draw.one([("more than", ">"), ("fewer than", "<"), ("at least", ">=")]),
    )
    limit = draw.between(2, 3)
    body = f"MATCH {scene.path}{where(found)} WITH {end.variable}, count({start.variable}) AS n"
    cypher = f"{body} WHERE n {sign} {limit} RETURN {end.of(shown)}"
    text = f"Show the {shown.name} of {end.node.plural} that {words} {limit} {start.node.plural}{said(found)} {link.said}."
    return Question(
        text, cypher, 4, ("having", *tags(found)), (*without(cypher, found), f"{body} RETURN {end.of(shown)}")
    )


def most_linked(scene: Scene) -> Question | None:
    draw, start, end, link = scene.draw, scene.start, scene.end, scene.world.link
    shown, column = scene.pick(end, "name"), scene.pick(start, "int")
    if shown is None or column is None:
        return None
    found, falling = conditions(start, draw, draw.between(0, 1)), draw.chance(0.5)
    limit, total = draw.between(1, 3), f"sum({start.of(column)})"
    body = f"MATCH {scene.path}{where(found)} RETURN {end.of(shown)}, {total}"
    cypher = f"{body} ORDER BY {total}{' DESC' if falling else ''} LIMIT {limit}"
    text = (
        f"Show the {shown.name} and the total {column.name} of {start.node.plural}{said(found)} that {link.said} them, "
        f"for the {f'{limit} {end.node.plural}' if limit > 1 else end.node.noun} with the {'highest' if falling else 'lowest'} total."
    )
    return Question(text, cypher, 4, ("top-group", *tags(found)), (*without(cypher, found), body))
