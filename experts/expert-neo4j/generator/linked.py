"""Questions over one relationship, levels 1 and 2: who works for X, what X wrote, and how many."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import listed

from .conditions import conditions
from .graphs import Column, spoken
from .measures import FUNCTIONS, ends, measured
from .parts import Question, Scene, called, described, keep, many, one, tags, where
from .steps import Step, called_by_name, clause, counted, narrowed_by, questions, step, ties

REQUESTS = (
    "show {np}",
    "show me all {np}",
    "list {np}",
    "list all {np}",
    "list the {np}",
    "give me {np}",
    "give me all {np}",
    "find {np}",
    "find all {np}",
    "get all {np}",
    "{np}",
    "{np}",
    "all {np}",
    "names of {np}",
    "the names of all {np}",
    "which are the {np}?",
    "tell me the {np}",
    "I need the {np}",
    "I'm looking for {np}",
    "what are the names of {np}?",
)
BY_ROLE = (
    "{r} of {x}",
    "the {r} of {x}",
    "{x}'s {r}",
    "list the {r} of {x}",
    "show the {r} of {x}",
    "show me {x}'s {r}",
    "give me the {r} of {x}",
    "names of the {r} of {x}",
    "find the {r} of {x}",
    "tell me {x}'s {r}",
)


def _pinned(scene: Scene, mutual: bool = False) -> tuple[Step, str, str] | None:
    """A relationship, and the other end's name, bare and as the question has it."""
    found = step(scene.world, scene.draw, mutual=mutual)
    if found is None:
        return None
    name = str(scene.draw.one(found.other.node.name.spec[2]))
    return found, name, called_by_name(found, name, scene.world, scene.draw)


PLURAL_ROLES = frozenset(
    ("crew", "cast", "staff", "squad", "people", "offspring", "audience", "lineup", "repertoire", "catch")
)


def _role(found: Step, x: str, scene: Scene) -> list[str]:
    if not found.roles:
        return []
    role = scene.draw.one(found.roles)
    forms = [form for form in BY_ROLE if "'s" not in form or not x.startswith("the ")]
    if not role.endswith("s") and role not in PLURAL_ROLES:
        be = "who" if found.asked.node.person else "what"
        forms += [f"{be} is the {{r}} of {{x}}?"] * 3 + [f"{be} is {{x}}'s {{r}}?"] * (
            not x.startswith("the ")
        )
    return [form.format(r=role, x=x) for form in forms]


# Verbs that `where does X live?` asks with, where one relationship of X says a place.
PLACED = frozenset(
    [
        "live",
        "work",
        "stand",
        "hang",
        "serve",
        "dwell",
        "grow",
        "stay",
        "study",
        "nest",
        "hold",
        "keep",
        "take",
        "train",
        "store",
        "park",
    ]
)


def _where(found: Step, x: str) -> list[str]:
    texts = []
    for verb in found.verbs_back:
        first, _, rest = verb.base.partition(" ")
        if rest in {"in", "at", "on"} and first in PLACED and not found.asked.node.person:
            texts.append(f"where {verb.auxiliary(True)} {x} {first}?")
        elif verb.passive and rest.endswith((" in", " at", " on")):
            texts.append(f"where {verb.be} {x} {rest.rsplit(' ', 1)[0]}?")
    return texts


def named(scene: Scene) -> Question | None:
    """Level 1: who works for X, what X wrote."""
    pinned = _pinned(scene, mutual=True)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    asked = many(found.asked.node, draw)
    texts = questions(found, asked, x, True)
    texts += _where(found, x) * 2
    kind = draw.weighted(("question", "request", "role"), (5, 3, 2 if found.roles else 0))
    if kind == "role":
        texts = _role(found, x, scene)
    if kind == "request" or not texts:
        texts = [draw.one(REQUESTS).format(np=f"{asked} {clause(found, x, True, draw)}")]
    condition = f" WHERE {found.other.name} = '{name}'"
    cypher = f"MATCH {found.pattern}{condition} RETURN DISTINCT {found.asked.name}"
    return Question(
        draw.one(texts), (name,), cypher, 1, ("linked", "by-name"), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip


def number_of(scene: Scene) -> Question | None:
    """Level 1: how many work for X."""
    pinned = _pinned(scene, mutual=True)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    asked = many(found.asked.node, draw)
    texts = counted(found, asked, x, True, draw)
    if ties(scene.world, found):
        texts += [
            f"how many {asked} does {x} have?",
            f"number of {asked} of {x}",
            f"how many {asked} are there for {x}?",
        ]
    condition = f" WHERE {found.other.name} = '{name}'"
    once = "DISTINCT " if found.edge.text.mutual else ""
    cypher = f"MATCH {found.pattern}{condition} RETURN count({once}{found.asked.variable})"
    return Question(
        draw.one(texts), (name,), cypher, 1, ("linked", "by-name", "count"), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip


def properties(scene: Scene) -> Question | None:
    """Level 2: properties of those who work for X."""
    pinned = _pinned(scene)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    columns = found.asked.node.columns[1:]
    some = draw.some(columns, min(len(columns), draw.weighted((1, 2), (3, 1))))
    asked, nouns = many(found.asked.node, draw), [_noun(column, draw) for column in some]
    cols, tail = listed(nouns, draw), clause(found, x, True, draw)
    named_too = draw.chance(0.5)
    if named_too:
        text = draw.one(
            (
                f"{asked} {tail}, with their {cols}",
                f"list the {asked} {tail} and their {cols}",
                f"show name and {cols} of the {asked} {tail}",
                f"names and {cols} of {asked} {tail}",
                f"which {asked} are {tail}, and what is their {cols}?"
                if tail.split(" ")[0].endswith("ed")
                else f"give me the {asked} {tail} with {cols}",
            )
        )
        some = [found.asked.node.name, *some]
    else:
        text = draw.one(
            (
                f"what is the {cols} of the {asked} {tail}?",
                f"show the {cols} of the {asked} {tail}",
                f"{cols} of {asked} {tail}",
                f"{cols} of all {asked} {tail}",
                f"list the {cols} of the {asked} {tail}",
                f"give me the {cols} of all {asked} {tail}",
            )
        )
    condition = f" WHERE {found.other.name} = '{name}'"
    cypher = f"MATCH {found.pattern}{condition} RETURN DISTINCT {', '.join(found.asked.of(c) for c in some)}"
    return Question(
        text, (name, *(column.field for column in some[1:])), cypher, 2, ("linked", "by-name", "columns"), found.nodes,
        (found.edge.type,), weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip


def _noun(column: Column, draw: Draw) -> str:
    noun = spoken(column, draw)
    return f"number of {noun}" if column.kind == "count" else noun


def filtered(scene: Scene) -> Question | None:
    """Level 2: one end is asked for, the other one is described."""
    draw, found = scene.draw, step(scene.world, scene.draw)
    if found is None:
        return None
    goal = conditions(found.other, draw, draw.weighted((1, 2), (6, 1)))
    own = conditions(found.asked, draw, 1) if draw.chance(0.15) else None
    if goal is None:
        return None
    asked, other = many(found.asked.node, draw), called(found.other.node, goal, draw)
    if own:
        if any(part.post or part.pred for part in own.parts) and not own.parts[0].pre:
            return None
        asked = described(asked, found.asked.node, own, draw)
        if not asked.startswith(own.parts[0].pre):
            return None
    if draw.chance(0.5) and (texts := questions(found, asked, other, False)):
        text = draw.one(texts)
    else:
        text = draw.one(REQUESTS).format(np=f"{asked} {clause(found, other, False, draw)}")
    counting = draw.chance(0.2)
    if counting:
        text = draw.one(counted(found, asked, other, False, draw))
    what = f"count(DISTINCT {found.asked.variable})" if counting else f"DISTINCT {found.asked.name}"
    cypher = f"MATCH {found.pattern}{where(own, goal)} RETURN {what}"
    return Question(
        text, keep(own, goal), cypher, 2, ("linked", "across", *tags(own, goal)), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(where(own, goal), ""),),
    )  # fmt: skip


def narrowed(scene: Scene) -> Question | None:
    """Level 2: those who work for X and are more than that."""
    pinned = _pinned(scene)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    own = conditions(found.asked, draw, 1)
    if own is None:
        return None
    counting = draw.chance(0.3)
    nouns, wholes = narrowed_by(found, own.parts[0], x, draw)
    if counting:
        texts = [whole.format(which="how many") for whole in wholes]
        texts += [form.format(np=np) for np in nouns for form in COUNTED]
    else:
        texts = [whole.format(which="which") for whole in wholes for _ in range(3)]
        texts += [form.format(np=np) for np in nouns for form in draw.some(REQUESTS, 4)]
    if not texts:
        return None
    text = draw.one(texts)
    what = f"count({found.asked.variable})" if counting else f"DISTINCT {found.asked.name}"
    goal = f"{found.other.name} = '{name}'"
    cypher = f"MATCH {found.pattern} WHERE {goal} AND {own.cypher} RETURN {what}"
    return Question(
        text, (name, *own.keep), cypher, 2, ("linked", "by-name", "narrowed", *own.tags), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(f" AND {own.cypher}", ""), cypher.replace(f"{goal} AND ", "")),
    )  # fmt: skip


COUNTED = ("how many {np} are there?", "number of {np}", "count {np}", "count all {np}", "the number of {np}")


def pairs(scene: Scene) -> Question | None:
    """Level 2: both ends."""
    draw, found = scene.draw, step(scene.world, scene.draw, loops=False)
    if found is None or not found.verbs:
        return None
    verb = draw.one(found.verbs)
    asked, other = many(found.asked.node, draw), many(found.other.node, draw)
    single, object_ = one(found.asked.node, draw), one(found.other.node, draw)
    own = conditions(found.asked, draw, 1) if draw.chance(0.3) else None
    np = described(asked, found.asked.node, own, draw)
    texts = [
        f"list {np} and the {other} they {verb.plural}",
        f"show all {np} with the {other} they {verb.plural}",
        f"{np} and the {other} they {verb.plural}",
        f"for all {np}, show the {other} they {verb.plural}",
        f"give me {np} together with the {other} they {verb.plural}",
        f"show which {other} the {np} {verb.plural}",
    ]
    if own is None:
        texts = [
            *texts,
            f"which {single} {verb.singular} which {object_}?",
            f"which {single} {verb.singular} which {object_}?",
            f"which {asked} {verb.plural} which {other}?",
            f"who {verb.singular} which {object_}?"
            if found.asked.node.person
            else f"what {asked} {verb.plural} what {other}?",
        ]
    if ties(scene.world, found):
        texts += [
            f"list {np} and their {other}",
            f"{np} with their {other}",
            f"show all {np} and their {other}",
        ]
    if any(text.startswith("show which") for text in texts) and own:
        texts = [text for text in texts if not text.startswith("show which")]
    cypher = f"MATCH {found.pattern}{where(own)} RETURN {found.asked.name}, {found.other.name}"
    return Question(
        draw.one(texts), keep(own), cypher, 2, ("pairs", *tags(own)), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(where(own), ""),) if own else (),
    )  # fmt: skip


def first_of(scene: Scene) -> Question | None:
    """Level 2: the oldest of those who work for X."""
    pinned = _pinned(scene)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    columns = [column for column in found.asked.node.columns[1:] if column.ordered]
    if not columns:
        return None
    by, falling = draw.one(columns), draw.chance(0.65)
    texts = [text for text in ends(by, falling, draw) if " that " not in text]
    if not texts:
        return None
    said = draw.one(texts)
    noun = one(found.asked.node, draw)
    tail = _singular(clause(found, x, True, draw), found)
    if tail is None:
        return None
    head = said.format(k="", N=f"{noun} {tail}" if " with " in said else noun)
    body = head if " with " in said else f"{head} {tail}"
    be = "who" if found.asked.node.person else "what"
    text = draw.one(
        (
            f"{be} is {body}?",
            f"which is {body}?" if be == "what" else f"who's {body}?",
            body,
            body.removeprefix("the "),
            f"show {body}",
            f"find {body}",
        )
    )
    condition = f" WHERE {found.other.name} = '{name}'"
    order = f" ORDER BY {found.asked.of(by)}{' DESC' if falling else ''} LIMIT 1"
    cypher = f"MATCH {found.pattern}{condition} RETURN {found.asked.name}{order}"
    return Question(
        text, (name,), cypher, 2, ("linked", "by-name", "order-limit"), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip


def _singular(tail: str, found: Step) -> str | None:
    """The clause for one of them: `who work for X` becomes `who works for X`."""
    for verb in found.verbs:
        for who in ("who", "that", "which"):
            if tail.startswith(f"{who} {verb.plural} "):
                return f"{who} {verb.singular} {tail.removeprefix(f'{who} {verb.plural} ')}"
    return tail if not tail.startswith(("who ", "which ")) else None


def totals(scene: Scene) -> Question | None:
    """Level 2: the average age of those who work for X."""
    pinned = _pinned(scene)
    if pinned is None:
        return None
    draw, (found, name, x) = scene.draw, pinned
    columns = found.asked.node.of_kind("measure", "count")
    if not columns:
        return None
    column = draw.one(columns)
    function = draw.weighted(tuple(FUNCTIONS), (5, 2 if column.kind == "count" else 1, 1, 1))
    asked = f"{many(found.asked.node, draw)} {clause(found, x, True, draw)}"
    condition = f" WHERE {found.other.name} = '{name}'"
    cypher = f"MATCH {found.pattern}{condition} RETURN {function}({found.asked.of(column)})"
    text = measured(column, function, asked, draw)
    return Question(
        text, (name,), cypher, 2, ("linked", "by-name", "aggregate", function), found.nodes, (found.edge.type,),
        weaker=(cypher.replace(condition, ""),),
    )  # fmt: skip
