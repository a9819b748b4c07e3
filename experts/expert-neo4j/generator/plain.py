"""Questions about one kind of node, level 1: lists, counts, one value, order, totals."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import listed, plural

from .conditions import conditions
from .graphs import Column, spoken
from .parts import (
    Question,
    Scene,
    called,
    keep,
    many,
    one,
    predicate,
    relative,
    tags,
    where,
    without,
)

LISTS = (
    "show {np}",
    "show me {np}",
    "show me all {np}",
    "list {np}",
    "list all {np}",
    "list the {np}",
    "give me all {np}",
    "give me the {np}",
    "find {np}",
    "find all {np}",
    "get all {np}",
    "find every one of the {np}",
    "{np}",
    "all {np}",
    "the names of all {np}",
    "return the names of {np}",
    "what are the {np}?",
    "which are the {np}?",
    "do we have {np}? list them",
    "I'm looking for {np}",
    "I need a list of {np}",
    "tell me the {np}",
    "show a list of {np}",
    "what {np} do we have?",
    "which {np} are there?",
)
WHICH = (
    "which {p} {pred}?",
    "which {p} {pred}?",
    "what {p} {pred}?",
    "which of the {p} {pred}?",
    "show me which {p} {pred}",
    "{p} {that} {pred}",
    "list all {p} {that} {pred}",
    "find the {p} {that} {pred}",
    "give me every {o} that matches: {pred}",
)
COUNTS = (
    "how many {np} are there?",
    "how many {np} are there?",
    "how many {np} do we have?",
    "how many {np} exist?",
    "count {np}",
    "count the {np}",
    "count all {np}",
    "number of {np}",
    "the number of {np}",
    "what is the number of {np}?",
    "what's the total number of {np}?",
    "total number of {np}",
    "how many {np}",
    "how many {np} are in the graph?",
    "give me the count of {np}",
    "I need the number of {np}",
    "tell me how many {np} there are",
)
COUNT_WHICH = (
    "how many {p} {pred}?",
    "how many {p} {pred}?",
    "how many of the {p} {pred}?",
    "count the {p} {that} {pred}",
)
PROPERTIES = (
    "show the {cols} of {np}",
    "list the {cols} of all {np}",
    "give me the {cols} of {np}",
    "get {cols} of {np}",
    "{cols} of {np}",
    "{cols} of all {np}",
    "what are the {cols} of {np}?",
    "show me {cols} for {np}",
    "return {cols} for all {np}",
    "find the {cols} of {np}",
    "for all {np}, show {cols}",
    "I need the {cols} of {np}",
)
WITH_NAMES = (
    "list {np} with their {cols}",
    "show {np} and their {cols}",
    "{np} with their {cols}",
    "{np} with {cols}",
    "give me {np} together with their {cols}",
    "show me all {np} along with their {cols}",
    "list the names and {cols} of {np}",
    "name and {cols} of {np}",
    "which {np} are there, and what are their {cols}?",
)


def listing(scene: Scene) -> Question | None:
    """Nodes by their names; half the time with a condition."""
    draw, part = scene.draw, scene.node()
    found = conditions(part, draw, draw.weighted((0, 1, 2), (1, 6, 1)))
    cypher = f"MATCH {part.pattern}{where(found)} RETURN {part.name}"
    text = draw.one(LISTS).format(np=called(part.node, found, draw))
    said = predicate(found, draw) if found else None
    if said and draw.chance(0.5):
        p, o = many(part.node, draw), one(part.node, draw)
        text = draw.one(WHICH[:-1]).format(p=p, o=o, pred=said, that=relative(part.node, draw))
    return Question(
        text, keep(found), cypher, 1, ("match", *tags(found)), (part.node,), weaker=without(cypher, found)
    )


def columns_of(scene: Scene) -> Question | None:
    """Properties, with or without the name."""
    draw, part = scene.draw, scene.node()
    some = draw.some(
        part.node.columns[1:], min(draw.weighted((1, 2, 3), (4, 3, 1)), len(part.node.columns) - 1)
    )
    if not some:
        return None
    found = conditions(part, draw, draw.weighted((0, 1, 2), (3, 6, 1)))
    asked = called(part.node, found, draw)
    named = draw.chance(0.45)
    nouns = [_plural_noun(column, draw) for column in some]
    if named:
        text = draw.one(WITH_NAMES).format(np=asked, cols=listed(nouns, draw))
        some = [part.node.name, *some]
    else:
        if draw.chance(0.35):
            some = [part.node.name, *some]
            nouns = [draw.one((part.node.name.field, plural(part.node.name.concept.nouns[0]))), *nouns]
        text = draw.one(PROPERTIES).format(np=asked, cols=listed(nouns, draw))
    cypher = f"MATCH {part.pattern}{where(found)} RETURN {', '.join(part.of(column) for column in some)}"
    fields = tuple(column.field for column in some)
    return Question(
        text,
        (*keep(found), *fields),
        cypher,
        1,
        ("columns", *tags(found)),
        (part.node,),
        weaker=without(cypher, found),
    )


def _plural_noun(column: Column, draw: Draw) -> str:
    noun = spoken(column, draw)
    if column.kind == "count":
        return draw.one((f"number of {noun}", noun, column.field))
    if column.kind == "flag":
        return column.field
    if column.kind in {"year", "date"}:
        return draw.one((noun, column.field))
    return draw.one((noun, plural(noun), column.field)) if column.kind != "name" else noun


def counting(scene: Scene) -> Question:
    draw, part = scene.draw, scene.node()
    found = conditions(part, draw, draw.weighted((0, 1, 2), (1, 5, 1)))
    cypher = f"MATCH {part.pattern}{where(found)} RETURN count({part.variable})"
    text = draw.one(COUNTS).format(np=called(part.node, found, draw))
    said = predicate(found, draw) if found else None
    if said and draw.chance(0.45):
        text = draw.one(COUNT_WHICH).format(
            p=many(part.node, draw), pred=said, that=relative(part.node, draw)
        )
    return Question(
        text, keep(found), cypher, 1, ("count", *tags(found)), (part.node,), weaker=without(cypher, found)
    )


def value(scene: Scene) -> Question | None:
    """One property of one node, which is called by its name."""
    draw, part = scene.draw, scene.node()
    columns = part.node.of_kind("measure", "count", "year", "date", "cat")
    if not columns:
        return None
    column, name = draw.one(columns), str(draw.one(part.node.name.spec[2]))
    # Without the noun where no other node has such a property and such a name.
    x = name if draw.chance(0.4) and len(scene.world.nodes) < 3 else f"the {one(part.node, draw)} {name}"
    cypher = f"MATCH {part.pattern} WHERE {part.name} = '{name}' RETURN {part.of(column)}"
    text = draw.one(_values(column, x, draw))
    return Question(
        text, (name, column.field), cypher, 1, ("value", "by-name"), (part.node,),
        weaker=(f"MATCH {part.pattern} RETURN {part.of(column)}",),
    )  # fmt: skip


def _values(column: Column, x: str, draw: Draw) -> list[str]:
    noun = spoken(column, draw)
    if column.kind == "count":
        return [
            f"how many {noun} does {x} have?",
            f"how many {noun} does {x} have?",
            f"number of {noun} of {x}",
            f"what is the number of {noun} of {x}?",
            f"tell me how many {noun} {x} has",
            f"how many {noun} has {x} got?",
        ]
    texts = [
        f"what is the {noun} of {x}?",
        f"what's the {noun} of {x}?",
        f"{x}'s {noun}" if not x.startswith("the ") else f"the {noun} of {x}",
        f"{noun} of {x}",
        f"show the {noun} of {x}",
        f"give me the {noun} of {x}",
        f"tell me the {noun} of {x}",
        f"I need the {noun} of {x}",
        f"what {noun} does {x} have?",
        f"find the {column.field} of {x}",
    ]
    if column.kind in {"year", "date"} and column.concept.verbs:
        verb = draw.one(column.concept.verbs)
        when = "when" if column.kind == "date" or draw.chance(0.6) else "in what year"
        asked = (
            f"{when} {verb.be} {x} {verb.rest}?"
            if verb.passive
            else f"{when} {verb.auxiliary(True)} {x} {verb.base}?"
        )
        texts += [asked] * 8
    if column.kind == "measure" and column.concept.high and column.concept.high[0] != "-":
        texts += [f"how {column.concept.high[0]} is {x}?"] * 5
    return texts
