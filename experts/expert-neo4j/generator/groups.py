"""Level 3: counts per node, the node with the most, nodes without any, and what a relationship knows."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw

from .conditions import an, number
from .graphs import Column, spoken
from .measures import FUNCTIONS
from .parts import Question, Scene, many, one
from .steps import Step, called_by_name, clause, step, ties


def _counted(scene: Scene) -> Step | None:
    """A relationship whose asked end is to be counted for each of the other ends."""
    found = step(scene.world, scene.draw, loops=False)
    return found if found and (found.verbs or ties(scene.world, found)) else None


def _ends(found: Step, draw: Draw) -> tuple[str, str, str]:
    """What is asked for, in plural; the other end, in plural and in singular."""
    return many(found.asked.node, draw), many(found.other.node, draw), one(found.other.node, draw)


def per_node(scene: Scene) -> Question | None:
    found, draw = _counted(scene), scene.draw
    if found is None:
        return None
    asked, other, single = _ends(found, draw)
    texts: list[str] = []
    if ties(scene.world, found):
        texts += [
            f"number of {asked} per {single}",
            f"number of {asked} per {single}",
            f"how many {asked} does each {single} have?",
            f"how many {asked} are there per {single}?",
            f"count {asked} per {single}",
            f"count the {asked} of each {single}",
            f"{single} and number of {asked}",
            f"list {other} with their number of {asked}",
            f"show each {single} with the number of {asked}",
            f"for each {single}, count the {asked}",
        ]
    for verb in found.verbs:
        texts += [
            f"how many {asked} {verb.plural} each {single}?",
            f"for each {single}, how many {asked} {verb.plural} it?",
        ]
        texts = (
            texts if not found.other.node.person else [text for text in texts if not text.endswith(" it?")]
        )
    for verb in found.verbs_back:
        if not verb.passive:
            texts += [f"how many {asked} {verb.auxiliary(True)} each {single} {verb.base}?"] * 2
            texts.append(f"list {other} and how many {asked} they {verb.plural}")
    if not texts:
        return None
    ordered = draw.chance(0.2)
    cypher = f"MATCH {found.pattern} RETURN {found.other.name}, count({found.asked.variable})"
    text, untied = draw.one(texts), ""
    if ordered:
        cypher = (
            f"MATCH {found.pattern} WITH {found.other.variable}, count({found.asked.variable}) AS n "
            f"RETURN {found.other.name}, n ORDER BY n DESC"
        )
        text = f"{text.rstrip('?')}{draw.one((', highest first', ', most first', ', sorted by that number, descending', ', in descending order'))}"
        untied = (
            f"MATCH {found.pattern} WITH {found.other.variable}, count({found.asked.variable}) AS n RETURN n"
        )
    return Question(
        text, (), cypher, 3, ("count-links", *(("group-order",) if ordered else ())), found.nodes, (found.edge.type,),
        weaker=(f"MATCH {found.pattern} RETURN {found.other.name}, {found.asked.name}",), untied=untied,
    )  # fmt: skip


def measure_per_node(scene: Scene) -> Question | None:
    found, draw = _counted(scene), scene.draw
    if found is None:
        return None
    columns = found.asked.node.of_kind("measure", "count")
    if not columns or not ties(scene.world, found):
        return None
    column = draw.one(columns)
    function = draw.weighted(tuple(FUNCTIONS), (5, 3 if column.kind == "count" else 1, 2, 2))
    word, noun = draw.one(FUNCTIONS[function]), spoken(column, draw)
    noun = f"number of {noun}" if column.kind == "count" else noun
    asked, single = many(found.asked.node, draw), one(found.other.node, draw)
    text = draw.one(
        (
            f"{word} {noun} of {asked} per {single}",
            f"{word} {noun} of the {asked} of each {single}",
            f"what is the {word} {noun} of {asked} for each {single}?",
            f"for each {single}, show the {word} {noun} of its {asked}"
            if not found.other.node.person
            else f"for each {single}, show the {word} {noun} of their {asked}",
            f"show the {word} {noun} of {asked} by {single}",
        )
    )
    cypher = f"MATCH {found.pattern} RETURN {found.other.name}, {function}({found.asked.of(column)})"
    return Question(text, (), cypher, 3, ("measure-links", function), found.nodes, (found.edge.type,))


def most(scene: Scene) -> Question | None:
    found, draw = _counted(scene), scene.draw
    if found is None:
        return None
    falling = draw.chance(0.85)
    limit = 1 if draw.chance(0.65) else draw.between(2, 3)
    asked, other, single = _ends(found, draw)
    word = "most" if falling else "fewest"
    texts: list[str] = []
    if ties(scene.world, found):
        if limit == 1:
            texts += [
                f"which {single} has the {word} {asked}?",
                f"which {single} has the {word} {asked}?",
                f"{single} with the {word} {asked}",
                f"the {single} with the {word} {asked}",
                f"show the {single} with the {word} {asked}",
                f"{'who' if found.other.node.person else 'what ' + single} has the {word} {asked}?",
                f"find the {single} that has the {word} {asked}",
            ]
        else:
            texts += [
                f"which {limit} {other} have the {word} {asked}?",
                f"the {limit} {other} with the {word} {asked}",
                f"{limit} {other} with the {word} {asked}",
                f"show the {limit} {other} with the {word} {asked}",
            ]
            if falling:
                texts += [f"top {limit} {other} by number of {asked}"] * 3
    for verb in found.verbs_back:
        if limit == 1:
            texts.append(f"which {single} {verb.singular} the {word} {asked}?")
            if found.other.node.person:
                texts += [f"who {verb.singular} the {word} {asked}?"] * 2
        else:
            texts.append(f"which {limit} {other} {verb.plural} the {word} {asked}?")
    if not texts:
        return None
    head = f"MATCH {found.pattern} WITH {found.other.variable}, count({found.asked.variable}) AS n "
    way = " DESC" if falling else ""
    also = draw.chance(0.2)
    text = draw.one(texts)
    if also:
        text = (
            f"{text.rstrip('?')}{draw.one((', and how many', ', with the number', ' and how many is that'))}"
        )
    cypher = f"{head}RETURN {found.other.name}{', n' if also else ''} ORDER BY n{way} LIMIT {limit}"
    return Question(
        text, (), cypher, 3, ("top-group",), found.nodes, (found.edge.type,),
        weaker=(f"{head}RETURN {found.other.name}{', n' if also else ''} ORDER BY n{'' if falling else ' DESC'} LIMIT {limit}",),
        untied=f"{head}RETURN n ORDER BY n{way} LIMIT {limit + 1}",
    )  # fmt: skip


def having(scene: Scene) -> Question | None:
    """Those with more than so many."""
    found, draw = _counted(scene), scene.draw
    if found is None:
        return None
    words, sign, limit = draw.one(
        (
            ("more than one", ">", 1),
            ("more than 2", ">", 2),
            ("more than two", ">", 2),
            ("more than 3", ">", 3),
            ("at least two", ">=", 2),
            ("at least 3", ">=", 3),
            ("at least 2", ">=", 2),
            ("over 2", ">", 2),
            ("exactly one", "=", 1),
            ("exactly 2", "=", 2),
            ("only one", "=", 1),
        )
    )
    noun = one(found.asked.node, draw) if words.endswith(" one") else many(found.asked.node, draw)
    other = many(found.other.node, draw)
    texts: list[str] = []
    if ties(scene.world, found):
        texts += [
            f"which {other} have {words} {noun}?",
            f"which {other} have {words} {noun}?",
            f"{other} with {words} {noun}",
            f"list all {other} that have {words} {noun}",
            f"find {other} with {words} {noun}",
            f"show the {other} having {words} {noun}",
        ]
    for verb in found.verbs_back:
        texts += [
            f"which {other} {verb.plural} {words} {noun}?",
            f"{other} that {verb.plural} {words} {noun}",
        ]
    if not texts:
        return None
    head = f"MATCH {found.pattern} WITH {found.other.variable}, count({found.asked.variable}) AS n"
    cypher = f"{head} WHERE n {sign} {limit} RETURN {found.other.name}"
    return Question(
        draw.one(texts), (), cypher, 3, ("having",), found.nodes, (found.edge.type,),
        weaker=(f"{head} RETURN {found.other.name}",),
    )  # fmt: skip


def absent(scene: Scene) -> Question | None:
    """Those without any."""
    draw, found = scene.draw, step(scene.world, scene.draw, loops=False)
    if found is None:
        return None
    asked, other, single = _ends(found, draw)
    texts: list[str] = []
    if ties(scene.world, found):
        texts += [
            f"{asked} without {other}",
            f"{asked} without any {other}",
            f"which {asked} have no {other}?",
            f"list all {asked} that have no {single}",
            f"show {asked} without a {single}"
            if single[0] not in "aeiou"
            else f"show {asked} without an {single}",
            f"find {asked} with no {other}",
        ]
    for verb in found.verbs:
        not_ = verb.negated(draw.chance(0.5))
        texts += [
            f"which {asked} {not_} any {single}?",
            f"{asked} that {not_} any {other}",
            f"list {asked} that {not_} any {single}",
        ]
        if not verb.passive:
            texts += [f"which {asked} {verb.plural} no {single}?", f"{asked} that {verb.plural} no {other}"]
    for verb in found.verbs_back:
        if not verb.passive:
            texts += [
                f"{asked} that no {single} {verb.singular}",
                f"which {asked} {verb.auxiliary(True)} no {single} {verb.base}?",
            ]
    if not texts:
        return None
    counting = draw.chance(0.2)
    text = draw.one(texts)
    if counting:
        bare = [some for some in texts if some.startswith(asked)]
        if not bare:
            return None
        text = draw.one(("how many {np} are there?", "number of {np}", "count the {np}")).format(
            np=draw.one(bare)
        )
    left, right = (found.asked.pattern, f"(:{found.other.node.label})")
    bare_asked = f"({found.asked.variable})"
    arrow = f"-[:{found.edge.type}]->"
    inner = f"{bare_asked}{arrow}{right}" if found.forward else f"{right}{arrow}{bare_asked}"
    what = f"count({found.asked.variable})" if counting else found.asked.name
    cypher = f"MATCH {left} WHERE NOT EXISTS {{ MATCH {inner} }} RETURN {what}"
    return Question(
        text,
        (),
        cypher,
        3,
        ("not-exists",),
        found.nodes,
        (found.edge.type,),
        weaker=(f"MATCH {left} RETURN {what}",),
    )


def with_zero(scene: Scene) -> Question | None:
    """Level 4: counts per node, also of those with none."""
    found, draw = _counted(scene), scene.draw
    if found is None or not ties(scene.world, found):
        return None
    asked, other, single = _ends(found, draw)
    text = draw.one(
        (
            f"number of {asked} per {single}, including {other} without any",
            f"how many {asked} does each {single} have? include those with none",
            f"all {other} with their number of {asked}, also those with zero",
            f"count the {asked} of every {single}, zero included",
            f"for every {single}, even those without {asked}, show the number of {asked}",
        )
    )
    arrow = f"-[:{found.edge.type}]->"
    ends = (f"({found.asked.variable}:{found.asked.node.label})", f"({found.other.variable})")
    path = f"{ends[0]}{arrow}{ends[1]}" if found.forward else f"{ends[1]}{arrow}{ends[0]}"
    cypher = f"MATCH {found.other.pattern} OPTIONAL MATCH {path} RETURN {found.other.name}, count({found.asked.variable})"
    plain = f"MATCH {found.pattern} RETURN {found.other.name}, count({found.asked.variable})"
    return Question(
        text, (), cypher, 4, ("optional-match",), found.nodes, (found.edge.type,), weaker=(plain,)
    )


def link_property(scene: Scene) -> Question | None:
    """What the relationship knows, asked for or limited."""
    draw, found = scene.draw, step(scene.world, scene.draw, loops=True)
    if found is None or not found.edge.columns:
        return None
    column = found.edge.columns[0]
    name = str(draw.one(found.other.node.name.spec[2]))
    x = called_by_name(found, name, scene.world, draw)
    asked = many(found.asked.node, draw)
    if draw.chance(0.45):
        return _asked_property(found, column, asked, name, x, draw)
    said = _limit(column, draw)
    if said is None:
        return None
    words, test, values = said
    # `pass a village with a distance of more than 20` may speak of the village.
    pinned = column.concept.key != "hours" or draw.chance(0.5)
    object_ = x if pinned else an(one(found.other.node, draw))
    texts = []
    for verb in found.verbs:
        texts += [
            f"which {asked} {verb.plural} {object_} {words}?",
            f"{asked} that {verb.plural} {object_} {words}",
        ]
        if found.asked.node.person:
            texts.append(f"who {verb.singular} {object_} {words}?")
    if not texts:
        return None
    goal = f"{found.other.name} = '{name}' AND " if pinned else ""
    cypher = f"MATCH {found.named} WHERE {goal}r.{column.field} {test} RETURN DISTINCT {found.asked.name}"
    return Question(
        draw.one(texts), (*values, *((name,) if pinned else ())), cypher, 3, ("link-property", *(("by-name",) if pinned else ())),
        found.nodes, (found.edge.type,),
        weaker=(cypher.replace(f" WHERE {goal}r.{column.field} {test}", f" WHERE {goal.removesuffix(' AND ')}" if pinned else ""),),
    )  # fmt: skip


def _asked_property(found: Step, column: Column, asked: str, name: str, x: str, draw: Draw) -> Question:
    noun = spoken(column, draw)
    noun = f"number of {noun}" if column.kind == "count" else noun
    tail = clause(found, x, True, draw)
    text = draw.one(
        (
            f"{asked} {tail}, with the {noun}",
            f"show the {asked} {tail} and the {noun}",
            f"list {asked} {tail}, and the {noun} of each",
            f"names of the {asked} {tail} and the {noun}",
        )
    )
    cypher = (
        f"MATCH {found.named} WHERE {found.other.name} = '{name}' RETURN {found.asked.name}, r.{column.field}"
    )
    return Question(
        text, (name, column.field), cypher, 3, ("link-property", "by-name", "columns"), found.nodes, (found.edge.type,),
        weaker=(f"MATCH {found.named} RETURN {found.asked.name}, r.{column.field}",),
    )  # fmt: skip


def _limit(column: Column, draw: Draw) -> tuple[str, str, tuple[str, ...]] | None:
    """`for more than 20 hours`, `with a rating over 50`: words, the test, and values to keep."""
    if column.kind == "cat":
        word = str(draw.one(column.spec[2]))
        return f"with {spoken(column, draw)} {word}", f"= '{word}'", (word,)
    if column.kind == "date":
        day = f"{draw.between(2022, 2024)}-{draw.between(1, 12):02d}-{draw.between(1, 28):02d}"
        words, sign = draw.one((("after", ">"), ("before", "<")))
        return f"{words} {day}", f"{sign} date('{day}')", (day,)
    if column.kind not in {"measure", "count", "year"}:
        return None
    value, noun = number(column, draw), spoken(column, draw)
    if column.kind == "year":
        words, sign = draw.one((("after", ">"), ("before", "<")))
        return f"with {an(noun)} {words} {value}", f"{sign} {value}", ()
    words, sign = draw.one(
        (("more than", ">"), ("over", ">"), ("less than", "<"), ("at least", ">="), ("under", "<"))
    )
    if column.kind == "count":
        lead = "for" if column.concept.key == "hours" else "with"
        return f"{lead} {words} {value} {draw.one(column.concept.nouns)}", f"{sign} {value}", ()
    unit = f" {column.concept.unit}" if column.concept.unit and draw.chance(0.5) else ""
    return f"with {an(noun)} of {words} {value}{unit}", f"{sign} {value}", ()
