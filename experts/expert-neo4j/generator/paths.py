"""Levels 3 and 4: two relationships in a row, the same thing shared, and paths of variable length."""

from __future__ import annotations

from .conditions import conditions
from .graphs import Edge, Part
from .parts import Question, Scene, called, many, one
from .steps import Step, clause, seen, step


def _chains(scene: Scene) -> list[tuple[Edge, bool, Edge, bool]]:
    """Two different relationships that share a node, and the direction of each on the way over it."""
    found = []
    for first in scene.world.edges:
        for second in scene.world.edges:
            if first is second or first.loop or second.loop:
                continue
            for forward in (True, False):
                middle = first.end if forward else first.start
                for onward in (True, False):
                    if middle is (second.start if onward else second.end):
                        found.append((first, forward, second, onward))
    return found


def two_hops(scene: Scene) -> Question | None:
    """`players of teams that play at X`."""
    draw, chains = scene.draw, _chains(scene)
    if not chains:
        return None
    first, forward, second, onward = draw.one(chains)
    asked = Part(first.start if forward else first.end, "a")
    middle = Part(first.end if forward else first.start, "b")
    last = Part(second.end if onward else second.start, "c")
    left, right = Step(first, forward, asked, middle), Step(second, onward, middle, last)
    if not (left.verbs or left.verbs_back) or not (right.verbs or right.verbs_back):
        return None
    name = str(draw.one(last.node.name.spec[2]))
    goal = conditions(last, draw, 1) if draw.chance(0.25) else None
    x = name if draw.chance(0.7) else f"the {one(last.node, draw)} {name}"
    inner = f"{many(middle.node, draw)} {clause(right, called(last.node, goal, draw) if goal else x, not goal, draw)}"
    np = f"{many(asked.node, draw)} {clause(left, inner, False, draw)}"
    counting = draw.chance(0.2)
    text = draw.one(
        ("number of {np}", "count the {np}", "how many {np} are there?")
        if counting
        else (
            "show {np}",
            "list all {np}",
            "{np}",
            "find {np}",
            "which are the {np}?",
            "give me the {np}",
            "list the {np}",
        )
    ).format(np=np)
    arrow = f"-[:{first.type}]->" if forward else f"<-[:{first.type}]-"
    onto = f"-[:{second.type}]->" if onward else f"<-[:{second.type}]-"
    pinned = f"{last.name} = '{name}'"
    condition = f" WHERE {goal.cypher if goal else pinned}"
    path = f"{asked.pattern}{arrow}{middle.pattern}{onto}{last.pattern}"
    what = f"count(DISTINCT {asked.variable})" if counting else f"DISTINCT {asked.name}"
    cypher = f"MATCH {path}{condition} RETURN {what}"
    return Question(
        text, goal.keep if goal else (name,), cypher, 4 if goal or counting else 3, ("two-hops", *(goal.tags if goal else ("by-name",))),
        (asked.node, middle.node, last.node), (first.type, second.type), weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip


def same(scene: Scene) -> Question | None:
    """Who works for the same company as X."""
    draw, found = scene.draw, step(scene.world, scene.draw, loops=False)
    if found is None or not found.verbs:
        return None
    verb, node, shared = draw.one(found.verbs), found.asked.node, one(found.other.node, draw)
    name, asked = str(draw.one(node.name.spec[2])), many(found.asked.node, draw)
    start, end = Part(node, "a"), Part(node, "c")
    texts = [
        f"which {asked} {verb.plural} the same {shared} as {name}?",
        f"{asked} that {verb.plural} the same {shared} as {name}",
        f"find other {asked} that {verb.plural} the same {shared} as {name}",
    ]
    if node.person:
        texts += [
            f"who else {verb.singular} the same {shared} as {name}?",
            f"who {verb.singular} the same {shared} as {name}?",
        ]
    middle = f"(b:{found.other.node.label})"
    out, back = (f"-[:{found.edge.type}]->", f"<-[:{found.edge.type}]-")
    if not found.forward:
        out, back = back, out
    path = f"{start.pattern}{out}{middle}{back}{end.pattern}"
    cypher = (
        f"MATCH {path} WHERE {start.name} = '{name}' AND {end.name} <> '{name}' RETURN DISTINCT {end.name}"
    )
    return Question(
        draw.one(texts), (name,), cypher, 4, ("shared", "by-name"), found.nodes, (found.edge.type,),
        weaker=(f"MATCH {path} RETURN DISTINCT {end.name}",),
    )  # fmt: skip


def _loop(scene: Scene) -> Step | None:
    loops = [edge for edge in scene.world.edges if edge.loop and not edge.text.mutual]
    if not loops:
        return None
    found = seen(scene.draw.one(loops), True)
    return found if found.verbs else None


def reach(scene: Scene) -> Question | None:
    """Over one to three steps."""
    found, draw = _loop(scene), scene.draw
    if found is None:
        return None
    verbs = [verb for verb in found.verbs if not verb.passive]
    if not verbs:
        return None
    verb, steps = draw.one(verbs), draw.between(2, 3)
    name, asked = str(draw.one(found.asked.node.name.spec[2])), many(found.asked.node, draw)
    far = draw.one((f"{steps} steps", "two steps" if steps == 2 else "three steps", f"{steps} hops"))
    help_ = verb.auxiliary(True)
    text = draw.one(
        (
            f"which {asked} {help_} {name} {verb.base} within {far}?",
            f"{asked} that {name} {verb.singular}, directly or within {far}",
            f"which {asked} can be reached from {name} in at most {far}?",
            f"all {asked} within {far} of {name}, following {found.edge.type}",
        )
    )
    start, end = found.asked, found.other
    path = f"{start.pattern}-[:{found.edge.type}*1..{steps}]->{end.pattern}"
    condition = f" WHERE {start.name} = '{name}'"
    cypher = f"MATCH {path}{condition} RETURN DISTINCT {end.name}"
    return Question(
        text, (name, found.edge.type), cypher, 4, ("reach", "by-name"), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(f"*1..{steps}", ""), cypher.replace(condition, "")),
    )  # fmt: skip


def compared(scene: Scene) -> Question | None:
    """Those who mentor somebody older than themselves."""
    found, draw = _loop(scene), scene.draw
    if found is None:
        return None
    columns = [
        column for column in found.asked.node.of_kind("measure") if column.concept.high and column.concept.low
    ]
    if not columns:
        return None
    column, over, verb = draw.one(columns), draw.chance(0.5), draw.one(found.verbs)
    asked, single = many(found.asked.node, draw), one(found.asked.node, draw)
    word = (column.concept.high if over else column.concept.low)[1]
    themselves = "themselves" if found.asked.node.person else "they are"
    text = (
        draw.one(
            (
                f"which {asked} {verb.plural} a {word} {single}?",
                f"{asked} that {verb.plural} {asked} {word} than {themselves}",
                f"find {asked} that {verb.plural} a {single} who is {word} than {themselves}"
                if found.asked.node.person
                else f"find {asked} that {verb.plural} a {word} {single}",
            )
        )
        .replace(" a o", " an o")
        .replace(" a e", " an e")
    )
    start, end = found.asked, found.other
    sign = ">" if over else "<"
    head = f"MATCH {start.pattern}-[:{found.edge.type}]->{end.pattern}"
    cypher = f"{head} WHERE {end.of(column)} {sign} {start.of(column)} RETURN DISTINCT {start.name}"
    return Question(
        text,
        (),
        cypher,
        4,
        ("compared",),
        found.nodes,
        (found.edge.type,),
        weaker=(f"{head} RETURN DISTINCT {start.name}",),
    )
