"""Order, totals and groups of one kind of node: the oldest, the average price, how many per country."""

from __future__ import annotations

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import plural

from .conditions import an, conditions
from .graphs import Column, Part, spoken
from .parts import Question, Scene, called, keep, many, one, tags, where, without


def ends(column: Column, falling: bool, draw: Draw) -> list[str]:
    """`{N}` with the most or least of something: `{k}` stands where a number may."""
    noun, concept = spoken(column, draw), column.concept
    if column.kind == "count":
        noun = draw.one(concept.nouns)
        most = "the most" if falling else draw.one(("the fewest", "the least"))
        return [f"the {{k}}{{N}} with {most} {noun}"] * 3 + [f"the {{k}}{{N}} that have {most} {noun}"]
    if column.kind in {"year", "date"}:
        words = concept.high if falling else concept.low
        last = [
            f"the {{k}}{{N}} that {verb.plural} {'last' if falling else 'first'}"
            for verb in concept.verbs[:1]
        ]
        return [f"the {{k}}{word} {{N}}" for word in words] * 2 + (last if not words else [])
    word = "highest" if falling else "lowest"
    adjective = concept.high if falling else concept.low
    texts = [f"the {{k}}{{N}} with the {word} {noun}"]
    if adjective:
        texts += [f"the {{k}}{adjective[2]} {{N}}"] * 3
    return texts


def top(scene: Scene) -> Question | None:
    """The first few of an order, or the first."""
    draw, part = scene.draw, scene.node()
    columns = [column for column in part.node.columns[1:] if column.ordered]
    if not columns:
        return None
    by, falling = draw.one(columns), draw.chance(0.68)
    limit = 1 if draw.chance(0.45) else draw.between(2, 5)
    found = conditions(part, draw, 1) if draw.chance(0.25) else None
    texts = ends(by, falling, draw)
    if not texts:
        return None
    noun = one(part.node, draw) if limit == 1 else many(part.node, draw)
    if limit == 1:
        texts = [text.replace(" that have ", " that has ") for text in texts]
    count = "" if limit == 1 else f"{draw.one((str(limit), str(limit), _WORDS[limit]))} "
    said = draw.one([text for text in texts if limit == 1 or " that " not in text or found is None])
    # With a condition the noun stays whole: `the 3 oldest members from Spain`.
    if found and any(part_.pre or not part_.post for part_ in found.parts):
        found = None
    tail = f" {draw.one(found.parts[0].post)}" if found else ""
    if found and (" with " in said or " that " in said):
        said, tail = said.replace("{N}", f"{{N}}{tail}"), ""
    body = said.format(k=count, N=noun) + tail
    extra = [by] if draw.chance(0.2) else []
    text = _asked_for(body, limit, draw, part)
    if limit > 1 and falling and not found and draw.chance(0.35):
        heading = (
            spoken(by, draw)
            if by.kind != "count"
            else draw.one((draw.one(by.concept.nouns), f"number of {by.concept.nouns[0]}"))
        )
        text = draw.one(
            (
                "top {k} {N} by {h}",
                "top {k} {N} by {h}",
                "show the top {k} {N} by {h}",
                "the {k} top {N} by {h}",
            )
        ).format(k=limit, N=noun, h=heading)
    if extra:
        noun_by = spoken(by, draw) if by.kind != "count" else f"number of {by.concept.nouns[0]}"
        text = f"{text.rstrip('?')}{draw.one((' with their {}', ' and their {}', ', also show the {}') if limit > 1 else (' and its {}', ', with its {}') if not part.node.person else (' and their {}', ', also show the {}')).format(noun_by)}"
    ending = f" ORDER BY {part.of(by)}{' DESC' if falling else ''} LIMIT {limit}"
    head = f"MATCH {part.pattern}{where(found)} RETURN "
    cypher = f"{head}{', '.join([part.name, *(part.of(column) for column in extra)])}{ending}"
    return Question(
        text, keep(found), cypher, 1, ("order-limit", *tags(found)), (part.node,),
        weaker=(*without(cypher, found), cypher.removesuffix(f" LIMIT {limit}")),
    )  # fmt: skip


_WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _asked_for(body: str, limit: int, draw: Draw, part: Part) -> str:
    bare = body.removeprefix("the ")
    if limit > 1:
        return draw.one(
            (
                body,
                bare,
                f"show {body}",
                f"list {body}",
                f"what are {body}?",
                f"which are {body}?",
                f"give me {body}",
                f"find {body}",
            )
        )
    texts = [
        f"what is {body}?",
        f"which is {body}?",
        body,
        bare,
        f"show me {body}",
        f"find {body}",
        f"give me {body}",
    ]
    if part.node.person:
        texts = [f"who is {body}?", f"who's {body}?", *texts[2:]]
    if bare.startswith(part.node.text.nouns[0][0] + " with the "):
        rest = bare.removeprefix(part.node.text.nouns[0][0] + " with ")
        texts += [f"which {part.node.text.nouns[0][0]} has {rest}?"] * 4
    return draw.one(texts)


def ordered(scene: Scene) -> Question | None:
    """All of them in an order."""
    draw, part = scene.draw, scene.node()
    columns = [column for column in part.node.columns[1:] if column.ordered]
    if not columns:
        return None
    by, found = draw.one(columns), conditions(part, draw, 1) if draw.chance(0.4) else None
    asked, noun = called(part.node, found, draw), spoken(by, draw)
    if by.kind == "count":
        noun = draw.one((noun, f"number of {noun}"))
    words = [
        ("{np} sorted by {n}", False),
        ("{np} ordered by {n}", False),
        ("list {np} by {n}", False),
        ("show all {np} ordered by {n}", False),
        ("sort {np} by {n}", False),
        ("{np} sorted by {n}, ascending", False),
        (
            "list {np}, lowest {n} first"
            if by.kind not in {"year", "date"}
            else "list {np}, earliest {n} first",
            False,
        ),
        (
            "list {np}, highest {n} first"
            if by.kind not in {"year", "date"}
            else "list {np}, latest {n} first",
            True,
        ),
        ("{np} by {n}, descending", True),
        ("{np} sorted by {n} in descending order", True),
        (
            "show {np} by {n} from high to low"
            if by.kind not in {"year", "date"}
            else "show {np} by {n}, latest first",
            True,
        ),
    ]
    high, low = by.concept.high, by.concept.low
    if by.kind == "measure" and len(high) == 3 and len(low) == 3:
        words += [(f"{{np}} from {high[2]} to {low[2]}", True), (f"{{np}} from {low[2]} to {high[2]}", False)]
        words += [(f"list {{np}}, {high[2]} first", True), (f"list {{np}}, {low[2]} first", False)]
    if by.kind in {"year", "date"} and high and low:
        words += [(f"{{np}}, {high[0]} first", True), (f"list {{np}} from {low[0]} to {high[0]}", False)]
    form, falling = draw.one(words)
    extra = [by] if draw.chance(0.25) else []
    text = form.format(np=asked, n=noun)
    if extra:
        text += draw.one((", with the {}", " and show the {}")).format(
            spoken(by, draw) if by.kind != "count" else f"number of {by.concept.nouns[0]}"
        )
    body = f"MATCH {part.pattern}{where(found)} RETURN {', '.join([part.name, *(part.of(column) for column in extra)])}"
    cypher = f"{body} ORDER BY {part.of(by)}{' DESC' if falling else ''}"
    return Question(
        text, keep(found), cypher, 1, ("order-by", *tags(found)), (part.node,), weaker=without(cypher, found)
    )


FUNCTIONS = {
    "avg": ("average", "mean", "avg"),
    "sum": ("total", "combined"),
    "max": ("highest", "maximum", "max"),
    "min": ("lowest", "minimum", "min"),
}


def aggregate(scene: Scene) -> Question | None:
    draw, part = scene.draw, scene.node()
    columns = part.node.of_kind("measure", "count")
    if not columns:
        return None
    column = draw.one(columns)
    function = draw.weighted(tuple(FUNCTIONS), (5, 3 if column.kind == "count" else 1, 2, 2))
    found = conditions(part, draw, draw.weighted((0, 1, 2), (5, 5, 1)))
    cypher = f"MATCH {part.pattern}{where(found)} RETURN {function}({part.of(column)})"
    text = measured(column, function, called(part.node, found, draw), draw)
    return Question(
        text,
        keep(found),
        cypher,
        1,
        ("aggregate", function, *tags(found)),
        (part.node,),
        weaker=without(cypher, found),
    )


def measured(column: Column, function: str, asked: str, draw: Draw) -> str:
    """`the average price of ...`, for nodes that are called `asked`."""
    word, noun = draw.one(FUNCTIONS[function]), spoken(column, draw)
    if column.kind == "count":
        noun = draw.one(
            (f"number of {noun}", f"number of {noun}", noun if function != "sum" else f"number of {noun}")
        )
    texts = [
        f"what is the {word} {noun} of {asked}?",
        f"what's the {word} {noun} of {asked}?",
        f"{word} {noun} of {asked}",
        f"{word} {noun} of {asked}",
        f"the {word} {noun} of all {asked}",
        f"{word} {noun} for {asked}",
        f"what is the {word} {noun} among {asked}?",
        f"give me the {word} {noun} of {asked}",
        f"show the {word} {noun} of all {asked}",
        f"find the {word} {noun} of {asked}",
        f"I need the {word} {noun} of {asked}",
    ]
    if (
        function == "avg"
        and column.kind == "measure"
        and column.concept.high
        and column.concept.high[0] != "-"
    ):
        texts += [f"how {column.concept.high[0]} are {asked} on average?"] * 3
    if column.kind == "count" and function in {"avg", "sum"}:
        how = "on average" if function == "avg" else "in total"
        texts += [f"how many {draw.one(column.concept.nouns)} do {asked} have {how}?"] * 4
    return draw.one(texts)


def distinct(scene: Scene) -> Question | None:
    draw, part = scene.draw, scene.node()
    columns = part.node.of_kind("cat")
    if not columns:
        return None
    column = draw.one(columns)
    others = [other for other in part.node.columns if other is not column]
    found = conditions(part, draw, 1) if draw.chance(0.35) and len(others) > 1 else None
    if found and any(part.of(column) in some.cypher for some in found.parts):
        return None
    asked, noun = called(part.node, found, draw), spoken(column, draw)
    if scene.world.has_noun(noun):
        return None
    nouns, counted = plural(noun), draw.chance(0.35)
    if counted:
        text = draw.one(
            (
                f"how many different {nouns} do {asked} have?",
                f"how many distinct {nouns} are there among {asked}?",
                f"number of different {nouns} of {asked}",
                f"count the distinct {nouns} of {asked}",
                f"count unique {nouns} of {asked}",
            )
        )
    else:
        text = draw.one(
            (
                f"which {nouns} do {asked} have?",
                f"what different {nouns} do {asked} have?",
                f"list the distinct {nouns} of {asked}",
                f"show all different {nouns} of {asked}",
                f"unique {nouns} of {asked}",
                f"distinct {nouns} of {asked}",
                f"what {nouns} are there among {asked}?",
                f"all {nouns} of {asked}, each only once",
                f"show {nouns} of {asked} without duplicates",
            )
        )
    what = f"count(DISTINCT {part.of(column)})" if counted else f"DISTINCT {part.of(column)}"
    cypher = f"MATCH {part.pattern}{where(found)} RETURN {what}"
    return Question(
        text, keep(found), cypher, 1, ("distinct", *tags(found)), (part.node,),
        weaker=(*without(cypher, found), cypher.replace("DISTINCT ", "")),
    )  # fmt: skip


def group(scene: Scene) -> Question | None:
    """Level 2: one line per category."""
    draw, part = scene.draw, scene.node()
    keys = part.node.of_kind("cat")
    if not keys:
        return None
    key, measures = draw.one(keys), part.node.of_kind("measure", "count")
    noun, asked = spoken(key, draw), many(part.node, draw)
    if scene.world.has_noun(noun):
        return None
    found = conditions(part, draw, 1) if draw.chance(0.2) else None
    if found and any(part.of(key) in some.cypher for some in found.parts):
        found = None
    asked = called(part.node, found, draw) if found else asked
    most = draw.chance(0.2) and not found
    if most:
        text = draw.one(
            (
                f"which {noun} has the most {asked}?",
                f"what is the most common {noun} of {asked}?",
                f"{noun} with the most {asked}",
                f"most frequent {noun} among {asked}",
            )
        )
        head = f"MATCH {part.pattern} WITH {part.of(key)} AS value, count({part.variable}) AS n"
        cypher = f"{head} RETURN value ORDER BY n DESC LIMIT 1"
        return Question(
            text, (), cypher, 2, ("group", "top-group"), (part.node,), weaker=(f"{head} RETURN value",),
            untied=f"{head} RETURN n ORDER BY n DESC LIMIT 2",
        )  # fmt: skip
    if measures and draw.chance(0.45):
        column = draw.one(measures)
        function = draw.weighted(tuple(FUNCTIONS), (5, 2 if column.kind == "count" else 1, 2, 2))
        word, what = draw.one(FUNCTIONS[function]), spoken(column, draw)
        what = f"number of {draw.one(column.concept.nouns)}" if column.kind == "count" else what
        value_ = f"{function}({part.of(column)})"
        text = draw.one(
            (
                f"{word} {what} of {asked} per {noun}",
                f"{word} {what} of {asked} by {noun}",
                f"what is the {word} {what} of {asked} per {noun}?",
                f"what is the {word} {what} of {asked} for each {noun}?",
                f"for each {noun}, the {word} {what} of {asked}",
                f"show the {word} {what} of {asked} for every {noun}",
                f"{word} {what} of {asked}, grouped by {noun}",
                f"for every {noun} give me the {word} {what} of {asked}",
            )
        )
    else:
        value_ = f"count({part.variable})"
        text = draw.one(
            (
                f"how many {asked} are there per {noun}?",
                f"how many {asked} are there for each {noun}?",
                f"number of {asked} per {noun}",
                f"number of {asked} by {noun}",
                f"count {asked} by {noun}",
                f"count of {asked} for each {noun}",
                f"count the {asked} per {noun}",
                f"{asked} per {noun}, just the numbers",
                f"for each {noun}, how many {asked} are there?",
                f"how many {asked} does each {noun} have?",
                f"show every {noun} with the number of {asked}",
                f"{noun} and number of {asked}",
            )
        )
    cypher = f"MATCH {part.pattern}{where(found)} RETURN {part.of(key)}, {value_}"
    return Question(
        text, keep(found), cypher, 2, ("group", *tags(found)), (part.node,), weaker=without(cypher, found)
    )


def above_average(scene: Scene) -> Question | None:
    """Level 4."""
    draw, part = scene.draw, scene.node()
    columns = part.node.of_kind("measure", "count")
    if not columns:
        return None
    column, over = draw.one(columns), draw.chance(0.65)
    noun, asked = spoken(column, draw), many(part.node, draw)
    noun = f"number of {noun}" if column.kind == "count" else noun
    word, sign = ("above", ">") if over else ("below", "<")
    adjective = column.concept.high if over else column.concept.low
    texts = [
        f"{asked} with {an(noun)} {word} average",
        f"which {asked} have {an(noun)} {word} the average?",
        f"list all {asked} whose {noun} is {word} average",
    ]
    if adjective:
        texts += [
            f"which {asked} are {adjective[1]} than average?",
            f"{asked} {adjective[1]} than the average",
        ]
    other = Part(part.node, "b")
    head = f"MATCH {part.pattern} WITH avg({part.of(column)}) AS mean MATCH {other.pattern}"
    cypher = f"{head} WHERE {other.of(column)} {sign} mean RETURN {other.name}"
    return Question(
        draw.one(texts),
        (),
        cypher,
        4,
        ("above-average",),
        (part.node,),
        weaker=(f"{head} RETURN {other.name}",),
    )
