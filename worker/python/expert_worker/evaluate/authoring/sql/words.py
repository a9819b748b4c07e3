"""Sentences: the wordings of each intent, and what fills them."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import plural
from expert_worker.evaluate.authoring.split import split_of

from .columns import Column
from .conditions import Condition, is_passive
from .scene import Placed

FILES = ("wordings.txt", "wordings_groups.txt")
UNEVEN = {
    "child": "children",
    "person": "people",
    "series": "series",
    "delivery": "deliveries",
    "staff": "staff",
}
ENDINGS = {"glass": "glasses", "piece of furniture": "pieces of furniture", "pair of glasses": "pairs of glasses", "shelf": "shelves", "leaf": "leaves"}  # fmt: skip
HELD_OUT = "wording"
SINGULAR = {
    "are": "is",
    "have": "has",
    "live": "lives",
    "earn": "earns",
    "come": "comes",
    "work": "works",
    "make": "makes",
}


class UnsayableError(Exception):
    """No wording of an intent has all of its words, as where no singular can be formed."""


@cache
def wordings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    intent = ""
    for name in FILES:
        for line in (Path(__file__).resolve().parent / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("[") and line.endswith("]"):
                intent = line[1:-1]
                found[intent] = []
            elif line and intent:
                found[intent].append(line)
    return found


def is_held_out(wording: str) -> bool:
    """One wording in ten never occurs in training."""
    return split_of(f"{HELD_OUT}/{wording}", {"train": 9, "held out": 1}) == "held out"


def say(intent: str, draw: Draw, held_out: bool, words: Mapping[str, str]) -> str:
    """One wording of the intent, of those whose words are all known."""
    fitting = [
        wording
        for wording in wordings()[intent]
        if fields(wording) <= words.keys() and (held_out or not is_held_out(wording))
    ]
    if not fitting:
        raise UnsayableError(intent)
    text = draw.one(fitting).format_map(words)
    return re.sub(r"  +", " ", text).strip()


def fields(wording: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(wording) if name}


def many(noun: str) -> str:
    if noun in ENDINGS:
        return ENDINGS[noun]
    head, _, last = noun.rpartition(" ")
    return f"{head} {UNEVEN.get(last, plural(last))}".strip()


def things(table: Placed, found: Condition | None, *, after: bool = True) -> str:
    """`Thai restaurants in Porto`; without `after` only `Thai restaurants`."""
    before = f"{found.before} " if found and found.before else ""
    behind = f" {found.after}" if found and after and found.after else ""
    return f"{before}{many(table.noun)}{behind}"


def thing(table: Placed, found: Condition | None) -> str | None:
    """In the singular; None where what stands behind the noun is said of many."""
    if found and found.after.startswith(("that ", "who ", "which ", "still ", "currently ")):
        return None
    if found and (" and that " in found.after or " and who " in found.after or " that " in found.after):
        return None
    before = f"{found.before} " if found and found.before else ""
    return f"{before}{table.noun}{' ' + found.after if found and found.after else ''}"


def about(table: Placed, found: Condition | None) -> dict[str, str]:
    """What every sentence about a table's rows may use."""
    words = {
        "np": things(table, found),
        "s": things(table, found, after=False),
        "plural": many(table.noun),
        "nm": shown_as(table, plural_names=True),
        "nm1": shown_as(table, plural_names=False),
    }
    one = thing(table, found)
    if one:
        words["one"] = one
    if table.table.is_person:
        words["p"] = ""
    if found and found.predicate:
        words["pred"] = found.predicate
        verb, _, rest = found.predicate.partition(" ")
        if table.table.is_person and verb in SINGULAR:
            words["who_pred"] = f"{SINGULAR[verb]} {rest}"
    return {key: text for key, text in words.items() if text or key == "p"}


def shown_as(table: Placed, *, plural_names: bool) -> str:
    if not table.shown:
        return ""
    noun = "name" if len(table.shown) == 2 else table.shown[0].nouns[0]
    if noun not in ("name", "title"):
        noun = table.shown[0].nouns[-1]
    return many(noun) if plural_names else noun


def superlative(column: Column, draw: Draw, *, falling: bool) -> dict[str, str]:
    """How people say that a column's largest (or smallest) value is meant."""
    noun = draw.one(column.nouns)
    words = {"x": f"number of {noun}" if column.countable and draw.chance(0.3) else noun}
    if column.kind == "date":
        words |= {
            "most": draw.one(("latest", "most recent")) if falling else draw.one(("earliest", "oldest")),
            "way": draw.one(("newest", "latest", "most recent") if falling else ("oldest", "earliest")),
            "other_way": "oldest" if falling else "newest",
            "ends": "newest to oldest" if falling else "oldest to newest",
            "direction": "descending" if falling else "ascending",
        }
        return words | {"falling": "" if falling else ", earliest first"}
    if column.countable:
        words["x"] = noun
        words["most"] = "most" if falling else "fewest"
    else:
        words["most"] = draw.one(("highest", "largest", "greatest") if falling else ("lowest", "smallest"))
    words |= {
        "way": draw.one(("highest", "largest") if falling else ("lowest", "smallest")),
        "other_way": "lowest" if falling else "highest",
        "ends": draw.one(
            ("highest to lowest", "high to low") if falling else ("lowest to highest", "low to high")
        ),
        "direction": draw.one(
            ("descending", "falling") if falling else ("ascending", "rising", "increasing")
        ),
        "falling": "" if falling else draw.one((", lowest first", ", smallest first")),
    }
    own = column.highest if falling else column.lowest
    if own:
        words["sup"] = draw.one(own)
        other = column.lowest if falling else column.highest
        words |= {"from_to": f"{own[0]} to {other[0]}"} if other else {}
    return words


def day_superlative(column: Column, draw: Draw, *, falling: bool) -> str:
    """`most recently hired`, or nothing where that could mean something else."""
    if not is_passive(column.verb):
        return ""
    return f"{draw.one(('most recently', 'last') if falling else ('first', 'earliest'))} {column.verb}"
