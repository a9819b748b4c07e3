"""Conditions on one node or relationship: in Cypher, and in the ways people say them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import quoted

from .graphs import Column, Part, spoken

MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
OVER = (
    ("more than {}", ">"),
    ("over {}", ">"),
    ("above {}", ">"),
    ("greater than {}", ">"),
    ("at least {}", ">="),
)
UNDER = (
    ("less than {}", "<"),
    ("under {}", "<"),
    ("below {}", "<"),
    ("at most {}", "<="),
    ("up to {}", "<="),
)


@dataclass(frozen=True)
class Condition:
    """`pre` stands before the noun, `post` behind it, `pred` is what they do or are: `are from Spain`."""

    cypher: str
    tags: tuple[str, ...]
    keep: tuple[str, ...]
    pre: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    pred: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """One or two conditions on a node."""

    parts: tuple[Condition, ...]
    word: str = "and"

    @property
    def cypher(self) -> str:
        return f" {self.word.upper()} ".join(part.cypher for part in self.parts)

    @property
    def tags(self) -> tuple[str, ...]:
        more = (self.word,) if len(self.parts) > 1 else ()
        return (*(tag for part in self.parts for tag in part.tags), *more)

    @property
    def keep(self) -> tuple[str, ...]:
        return tuple(value for part in self.parts for value in part.keep)


def an(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' and not noun.startswith(('uni', 'use', 'eu')) else 'a'} {noun}"


def number(column: Column, draw: Draw, low: int = 20, high: int = 80) -> int:
    """Well inside the column's range, so that both sides of it have nodes; round where the range is wide."""
    if column.few:
        return int(draw.one(column.spec[2][1:-1]))
    start, end = int(column.spec[2]), int(column.spec[3])
    found = start + (end - start) * draw.between(low, high) // 100
    if column.kind == "year" or draw.chance(0.2):
        return found
    step = 50 if end - start > 800 else 10 if end - start > 150 else 5 if end - start > 60 else 1
    return max(found // step * step, start + 1)


def condition(column: Column, part: Part, draw: Draw) -> Condition:
    return draw.one(MAKERS[column.kind])(column, part, draw)


def _that(person: bool, draw: Draw) -> str:
    return draw.one(("who", "who", "that")) if person else "that"


def _equal(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    value = str(draw.one(column.spec[2]))
    return _is(column, f"{name} = '{value}'", (quoted(value, draw), value), ("equals",), draw)


def _one_of(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    left, right = draw.some(column.spec[2], 2)
    cypher = f"{name} IN ['{left}', '{right}']"
    return _is(column, cypher, (f"{left} or {right}", left, right), ("in-list",), draw, plain=True)


def _is(
    column: Column,
    cypher: str,
    values: Sequence[str],
    tags: tuple[str, ...],
    draw: Draw,
    plain: bool = False,
) -> Condition:
    """Of a category: by the concept's own phrases and by its name."""
    said, noun = values[0], spoken(column, draw)
    pre: list[str] = []
    post, pred = [], []  # type: list[str], list[str]
    for phrase in column.concept.phrases:
        text = phrase.replace("{v}", said)
        if phrase == "{v} {N}" or phrase.endswith(" {N}"):
            if not plain and said == values[-1]:
                pre.append(text.removesuffix(" {N}"))
        elif phrase.startswith(("who ", "that ")):
            pred.append(text.split(" ", 1)[1])
        else:
            post.append(text)
            if phrase.startswith(
                ("in ", "from ", "based ", "located ", "made ", "written ", "living ", "painted ")
            ):
                pred.append(f"are {text}")
    if not (pre or post or pred) or draw.chance(0.3):
        post += [f"with {noun} {said}", f"whose {noun} is {said}", f"where the {noun} is {said}"]
        pred.append(f"have {noun} {said}")
    return Condition(cypher, tags, tuple(values[1:]), tuple(pre), tuple(post), tuple(pred))


def _unequal(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    value, noun = str(draw.one(column.spec[2])), spoken(column, draw)
    post = [f"whose {noun} is not {quoted(value, draw)}", f"with {an(noun)} other than {value}"]
    pred = [
        f"are not {phrase.replace('{v}', value)}"
        for phrase in column.concept.phrases
        if phrase.startswith(("from ", "in ", "made ", "based "))
    ]
    return Condition(f"{name} <> '{value}'", ("not-equal",), (value,), (), tuple(post), tuple(pred))


def _flag(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    yes = draw.chance(0.65)
    word = column.concept.phrases[0 if yes else 1]
    pre = (word,) if " " not in word else ()
    cypher = f"{name} = {'true' if yes else 'false'}"
    return Condition(cypher, ("flag",), (), pre, (), (f"are {word}",))


def _measure(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    limit, noun, over = number(column, draw), spoken(column, draw), draw.chance(0.6)
    unit = f" {column.concept.unit}" if column.concept.unit and draw.chance(0.5) else ""
    value = f"{limit}{unit}"
    if draw.chance(0.12):
        return _between(column, name, draw, noun)
    adjective = column.concept.high if over else column.concept.low
    if adjective and draw.chance(0.55):
        worded = f"{adjective[1]} than {value}"
        sign = ">" if over else "<"
        return Condition(
            f"{name} {sign} {limit}", ("compare", "adjective"), (), (), (worded,), (f"are {worded}",)
        )
    words, sign = draw.one(OVER if over else UNDER)
    worded = words.format(value)
    post = [f"with {an(noun)} of {worded}", f"with {noun} {worded}", f"whose {noun} is {worded}"]
    if draw.chance(0.15):
        post = [f"with {noun} {sign} {limit}", f"where {noun} {sign} {limit}"]
    return Condition(
        f"{name} {sign} {limit}", ("compare",), (), (), tuple(post), (f"have {an(noun)} of {worded}",)
    )


def _between(column: Column, name: str, draw: Draw, noun: str) -> Condition:
    low, high = number(column, draw, 15, 40), number(column, draw, 60, 90)
    worded = draw.one((f"between {low} and {high}", f"from {low} to {high}"))
    post = (f"with {an(noun)} {worded}", f"whose {noun} is {worded}")
    if column.kind == "count":
        post = (f"with {low} to {high} {noun}", f"with between {low} and {high} {noun}")
    return Condition(f"{name} >= {low} AND {name} <= {high}", ("between",), (), (), post)


def _count(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    limit = number(column, draw)
    noun = draw.one(column.concept.nouns)
    if draw.chance(0.1):
        return _between(column, name, draw, noun)
    words, sign = draw.one(
        (
            ("more than {n} {w}", ">"),
            ("more than {n} {w}", ">"),
            ("over {n} {w}", ">"),
            ("at least {n} {w}", ">="),
            ("{n} or more {w}", ">="),
            ("fewer than {n} {w}", "<"),
            ("less than {n} {w}", "<"),
            ("under {n} {w}", "<"),
            ("at most {n} {w}", "<="),
            ("no more than {n} {w}", "<="),
        )
    )
    worded = words.format(n=limit, w=noun)
    post = (f"with {worded}", f"having {worded}", f"{_that(part.node.person, draw)} have {worded}")
    return Condition(f"{name} {sign} {limit}", ("compare", "quantity"), (), (), post, (f"have {worded}",))


def _year(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    year = number(column, draw)
    noun = spoken(column, draw)
    if column.few and draw.chance(0.7):
        return _dated(column, f"{name} = {year}", f"in {year}", ("year",), draw, noun)
    words, sign = draw.one(
        (
            ("after {}", ">"),
            ("after {}", ">"),
            ("since {}", ">="),
            ("before {}", "<"),
            ("before {}", "<"),
            ("in {} or later", ">="),
        )
    )
    if draw.chance(0.1) and not column.few:
        low, high = number(column, draw, 10, 40), number(column, draw, 60, 90)
        return _dated(column, f"{name} >= {low} AND {name} <= {high}", f"between {low} and {high}", ("between",), draw, noun)  # fmt: skip
    return _dated(column, f"{name} {sign} {year}", words.format(year), ("compare", "year"), draw, noun)


def _date(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    year, month, day = draw.between(2022, 2024), draw.between(1, 12), draw.between(1, 28)
    noun = spoken(column, draw)
    if draw.chance(0.25):
        cypher = f"{name} >= date('{year}-01-01') AND {name} < date('{year + 1}-01-01')"
        return _dated(column, cypher, f"in {year}", ("date-compare", "date-year"), draw, noun)
    iso = f"{year}-{month:02d}-{day:02d}"
    value = iso if draw.chance(0.75) else f"{MONTHS[month - 1]} {day}, {year}"
    words, sign = draw.one(
        (("after {}", ">"), ("after {}", ">"), ("since {}", ">="), ("before {}", "<"), ("before {}", "<"))
    )
    cypher = f"{name} {sign} date('{iso}')"
    return _dated(column, cypher, words.format(value), ("date-compare",), draw, noun, value)


def _dated(
    column: Column,
    cypher: str,
    when: str,
    tags: tuple[str, ...],
    draw: Draw,
    noun: str,
    value: str = "",
) -> Condition:
    post, pred = [], []  # type: list[str], list[str]
    verbs = column.concept.verbs
    if verbs:
        verb = draw.one(verbs)
        pred.append(f"{verb.plural} {when}")
        if verb.passive:
            post.append(f"{verb.rest} {when}")
    if not verbs or draw.chance(0.2):
        post += [f"with {an(noun)} {when}", f"with {noun} {when}"]
    keep = (value,) if value else ()
    return Condition(cypher, tags, keep, (), tuple(post), tuple(pred))


def _text(column: Column, part: Part, draw: Draw) -> Condition:
    name = part.of(column)
    word = str(draw.one(column.spec[2]))
    noun, piece = column.concept.nouns[0], draw.one(word.split(" "))
    kind = draw.weighted(("contains", "starts", "ends"), (5, 4, 2))
    if kind == "contains":
        post = (
            f"with '{piece}' in the {noun}",
            f"whose {noun} contains '{piece}'",
            f"containing '{piece}' in their {noun}",
        )
        return Condition(f"{name} CONTAINS '{piece}'", ("text-match",), (piece,), (), post)
    edge = word[0] if kind == "starts" else word[-1]
    verb = "starts" if kind == "starts" else "ends"
    operator = "STARTS WITH" if kind == "starts" else "ENDS WITH"
    post = (
        f"whose {noun} {verb} with {edge}",
        f"whose {noun} {verb} with '{edge}'",
        f"with {an(noun)} that {verb} with {edge}",
    )
    return Condition(f"{name} {operator} '{edge}'", ("text-match",), (edge,), (), post)


Maker = Callable[[Column, Part, Draw], Condition]
MAKERS: dict[str, tuple[Maker, ...]] = {
    "cat": (_equal, _equal, _equal, _equal, _one_of, _unequal),
    "flag": (_flag,),
    "measure": (_measure,),
    "count": (_count,),
    "year": (_year,),
    "date": (_date,),
    "name": (_text,),
}
WEIGHTS = {"cat": 4.0, "flag": 4.0, "measure": 4.0, "count": 3.0, "year": 3.0, "date": 2.0, "name": 0.7}


def conditions(part: Part, draw: Draw, count: int) -> Found | None:
    """None for a count of 0; two are joined by one `and` or `or`."""
    if count == 0:
        return None
    columns = list(part.node.columns)
    first = draw.weighted(columns, [WEIGHTS[column.kind] for column in columns])
    parts = [condition(first, part, draw)]
    others = [column for column in columns if column is not first and column.kind != "name"]
    if count == 1 or not others:
        return Found(tuple(parts))
    parts.append(condition(draw.one(others), part, draw))
    either = draw.chance(0.2) and not any(
        "between" in part.tags or "date-year" in part.tags for part in parts
    )
    return Found(tuple(parts), "or" if either else "and")
