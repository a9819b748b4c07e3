"""Columns as people speak of them: parsed from the worlds, measures.txt and facets.txt.

A column of a world is one of
    name!pool                 words from a pool: person, first, last, thing, place, firm, code, task, job
    kind/type[a|b]^           one of few words; ^ lets a word stand before the noun
    seats#20-400              a number of things
    speed limit~20-130        a number that no measure describes
    hired@hire date           a day
    active?active/inactive    true or false
    price, label:price(1-9)   a measure or a facet, under another label and with other values if given
`/` adds how people call it, `<by _, written by _>` what can stand behind a noun, `*` may be missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENTRY = re.compile(r"(?P<label>[\w/ ]+?)(?P<kind>[!\[#~@?:(]|$)")


@dataclass(frozen=True)
class Column:
    names: tuple[str, ...]
    nouns: tuple[str, ...]
    kind: str
    values: tuple[str, ...] = ()
    pool: str = ""
    low: float = 0
    high: float = 0
    step: float = 1
    nullable: bool = False
    measure: str = ""
    units: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()
    lowest: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()
    how: str = ""
    ask: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    before: bool = False
    verb: str = ""
    yes: str = ""
    no: str = ""
    # A date with the time of day.
    timed: bool = False
    # The most characters of a text; 0 where there may be any number of them.
    length: int = 0
    # In one question's tables: the column's name, and as a statement writes it.
    name: str = ""
    sql: str = ""

    @property
    def countable(self) -> bool:
        return self.measure == "#"

    @property
    def is_year(self) -> bool:
        return self.kind == "number" and self.low >= 1500 and self.high < 2100


def parse(text: str) -> Column:
    nullable = text.endswith("*")
    text = text.rstrip("*").strip()
    text, after = _cut(text, "<", ">")
    found = ENTRY.match(text)
    if found is None:
        raise ValueError(f"not a column: {text}")
    label, kind, rest = found["label"], found["kind"], text[found.end() :]
    name, *calls = label.split("/")
    nouns = tuple(calls) or (name.replace("_", " "),)
    column = _parsed(name, nouns, kind, rest, given=bool(calls))
    if column.kind == "name" and after:
        column = replace(column, kind="cat")
    return replace(
        column,
        nullable=nullable or column.kind == "text",
        after=tuple(part.replace("_", "{v}") for part in _split(after, ",")) or column.after,
    )


def _parsed(name: str, nouns: tuple[str, ...], kind: str, rest: str, *, given: bool) -> Column:
    if kind == "!":
        return Column(_label_names(name, rest), nouns, "name", pool=rest)
    if kind == "[":
        values, _, flags = rest.partition("]")
        return Column((name,), nouns, "cat", tuple(values.split("|")), before="^" in flags)
    if kind in "#~" and kind:
        low, high, step = _range(rest)
        names = (name,) if given or kind == "~" else _count_names(name)
        return Column(names, nouns, "number", low=low, high=high, step=step, measure=kind)
    if kind == "@":
        calls = tuple(rest.split("/"))
        verb = "" if name.endswith("date") else name.removesuffix("_on").replace("_", " ")
        return Column(_day_names(name, calls[0]), calls, "date", verb=verb)
    if kind == "?":
        yes, no = rest.split("/")
        return Column((name, f"is_{name}") if _is_one_word(yes) else (name,), nouns, "bool", yes=yes, no=no)
    return _known(name, nouns, kind, rest, given=given)


def _known(name: str, nouns: tuple[str, ...], kind: str, rest: str, *, given: bool) -> Column:
    concept, values = _cut(rest if kind == ":" else f"{name}({rest}" if kind else name, "(", ")")
    column = concepts()[concept]
    if kind == ":":
        own = nouns if given else ()
        column = replace(column, names=(name,), nouns=own + column.nouns)
    if values and column.kind == "number":
        low, high, step = _range(values)
        column = replace(column, low=low, high=high, step=step)
    elif values:
        column = replace(column, values=tuple(values.split("|")))
    return column


@cache
def concepts() -> dict[str, Column]:
    found: dict[str, Column] = {}
    for path, kind in (("measures.txt", "number"), ("facets.txt", "cat")):
        name = ""
        for line in (HERE / path).read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            key, _, rest = line.strip().partition(": ")
            if line.startswith(" "):
                found[name] = _with(found[name], key, rest)
            else:
                name = key
                found[name] = _concept(name, kind, rest)
    return found


def _concept(name: str, kind: str, rest: str) -> Column:
    parts = [part.strip() for part in rest.split(":")]
    column = Column(_split(parts[0], ","), _split(parts[1], ","), kind, measure=name)
    if kind == "number":
        low, high, step = _range(parts[2])
        return replace(column, low=low, high=high, step=step)
    if len(parts) < 3:
        return replace(column, kind="text", pool=name)
    words, _, flag = parts[2].partition(" ")
    pooled = "|" not in words
    return replace(
        column,
        pool=words if pooled else "",
        values=() if pooled else tuple(words.split("|")),
        before=flag == "^",
    )


def _with(column: Column, key: str, rest: str) -> Column:
    lists = {
        "unit": "units", "hi": "highest", "lo": "lowest", "more": "more",
        "less": "less", "ask": "ask", "after": "after", "none": "none",
    }  # fmt: skip
    if key == "how":
        return replace(column, how=rest)
    mark = "," if key in ("unit", "hi", "lo") else ";"
    return replace(column, **{lists[key]: _split(rest, mark)})  # type: ignore[arg-type]


def _split(text: str, mark: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(mark) if part.strip())


def _cut(text: str, left: str, right: str) -> tuple[str, str]:
    head, mark, tail = text.partition(left)
    return (head.strip(), tail.rpartition(right)[0]) if mark else (text.strip(), "")


def _range(text: str) -> tuple[float, float, float]:
    ends, _, step = text.strip().partition("/")
    low, high = ends.split("-")
    return int(low), int(high), float(step) if step else 1


def _is_one_word(text: str) -> bool:
    return " " not in text


def _label_names(name: str, pool: str) -> tuple[str, ...]:
    if name == "name":
        return ("name", "name", "{noun}_name", "full_name" if pool == "person" else "name")
    return ("title", "title", "{noun}_title", "name") if name == "title" else (name,)


def _count_names(name: str) -> tuple[str, ...]:
    one = name.removesuffix("s")
    return (name, name, f"num_{name}", f"{one}_count", f"n_{name}", f"total_{name}", f"no_of_{name}")


def _day_names(name: str, noun: str) -> tuple[str, ...]:
    snake = noun.replace(" ", "_")
    if name.endswith(("ed", "_on")) or name in IRREGULAR:
        stem = name.removesuffix("_on")
        return (f"{stem}_on", snake, f"{stem}_at", name, f"date_{stem}")
    return (name, snake)


_IRREGULAR_TEXT = "bought sold sent given held seen taken lent found sown written built paid"
IRREGULAR = frozenset(_IRREGULAR_TEXT.split())
