"""A table's columns as people speak of them, from their names, types and checks."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from functools import cache
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql import columns as spoken
from expert_worker.evaluate.authoring.sql import pools
from expert_worker.evaluate.authoring.sql.scene import TEXTS
from expert_worker.evaluate.authoring.sql.tables import Table as Spoken

from . import ddl
from .vocabulary import Synonyms, singular, table_nouns, table_words, words_of

_PERSONS_TEXT = """
actor author user customer client employee person member patient student teacher doctor driver manager
contact staff artist player guest visitor owner tenant agent reader writer director employer borrower
passenger worker subscriber
"""
PERSONS = frozenset(_PERSONS_TEXT.split())
_NAMES = (
    "name",
    "title",
    "full name",
    "label",
    "display name",
    "subject",
    "headline",
    "username",
    "user name",
    "login",
)
_FIRMS = ("company", "company name", "firm", "business name", "organization")
_TEXTS_TEXT = """
description notes note comment comments remark remarks body content text bio biography summary message
email mail phone fax mobile address street url website homepage link image photo picture password hash
token path file avatar metadata payload details instructions features address2 signature key secret
"""
_TEXTS = frozenset(_TEXTS_TEXT.split())
_CODES_TEXT = """
code sku isbn zip postal barcode reference serial plate ean upc number postcode
"""
_CODES = frozenset(_CODES_TEXT.split())
_ROLES = {
    "author": ("by {v}", "written by {v}"),
    "composer": ("composed by {v}", "by {v}"),
    "director": ("directed by {v}", "by {v}"),
    "artist": ("by {v}",),
    "manager": ("managed by {v}",),
    "owner": ("owned by {v}",),
    "assignee": ("assigned to {v}",),
    "contact": (),
    "reviewer": ("reviewed by {v}",),
    "editor": ("edited by {v}",),
    "supervisor": ("supervised by {v}",),
    "creator": ("created by {v}",),
    "reporter": ("reported by {v}",),
    "doctor": (),
    "teacher": ("taught by {v}",),
}
_VERBS_TEXT = """
hire=hired order=placed ship=shipped shipping=shipped release=released creation=created create=created
update=updated start=started end=ended payment=paid pay=paid rental=rented return=returned invoice=issued
issue=issued sign=signed join=joined publish=published publication=published open=opened close=closed
delivery=delivered purchase=bought sale=sold registration=registered signup=signed_up
"""
_VERBS = {key: word.replace("_", " ") for key, word in (it.split("=") for it in _VERBS_TEXT.split())}
# Where a name alone says too little, what the table is about decides.
_STATUS = {
    "status_order": frozenset(["order", "purchase", "sale", "invoice", "shipment", "delivery", "payment"]),
    "status_task": frozenset(["task", "ticket", "issue", "todo", "project", "bug", "story"]),
    "status_run": frozenset(["machine", "device", "server", "job", "sensor", "vehicle"]),
}
_MADE_FOR_MINUTES_TEXT = """
film movie video episode lesson song track meeting call course show book
"""
_MADE_FOR_MINUTES = frozenset(_MADE_FOR_MINUTES_TEXT.split())
# What a year alone says when it came out.
_RELEASED_TEXT = """
film movie video episode series show song track album single record recording book game publication article
paper app
"""
_RELEASED = frozenset(_RELEASED_TEXT.split())
_PREFERRED_TEXT = """
price=price cost=cost amount=amount total=amount duration=minutes quantity=quantity stock=stock
year=released rating=rating score=rating views=popularity rate=fee milliseconds=milliseconds bytes=bytes
length=length units=quantity elevation=altitude percent=discount
"""
_PREFERRED = dict(entry.split("=") for entry in _PREFERRED_TEXT.split())
_COUNTED = ("number of ", "total ", "count of ")
# Two values of a text that say whether something is so: yes, then no.
_YES_NO = (("y", "n"), ("yes", "no"), ("t", "f"), ("true", "false"), ("1", "0"))
_ANY_NUMBER = (1.0, 900.0, 1.0)
# As many as a date, and as a date with its time, are written with.
_DATE_LENGTH, _TIME_LENGTH = 10, 19
# The fewest different words of a column that questions compare with, and of one whose words name rows.
_FEWEST_WORDS, _FEWEST_NAMES = 8, 24
# What stands in a text that is only shown, where nothing longer fits.
_SHORT_TEXTS = ("AX", "BK", "CM", "DR", "EL", "FT")
_CODE_LENGTH = 6
# The fewest of a range whose steps may be changed.
FEWEST_STEPS = 10


@cache
def _measures() -> dict[str, str]:
    """Names of columns -> the first measure that has them."""
    found: dict[str, str] = {}
    for concept, column in spoken.concepts().items():
        if column.kind == "number":
            for name in (concept, *column.names):
                found.setdefault(name, concept)
    return found | _PREFERRED


@cache
def sql_name(name: str) -> str:
    """As a statement writes it: quoted where SQLite needs it."""
    if not (name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()):
        return f'"{name}"'
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE {name} ({name} INT)")
        connection.execute(f"SELECT {name}.{name}, COUNT(*) FROM {name} GROUP BY {name}")  # noqa: S608
    except sqlite3.Error:
        return f'"{name}"'
    finally:
        connection.close()
    return name


def spoken_table(table: ddl.Table, synonyms: Synonyms, *, has_states: bool = False) -> Spoken:
    """Its columns that questions can be about, those that name a row first.

    `has_states`: a table of the schema has a column `state`, so a status is never called that.
    """
    table = replace(table, columns=[_without_blanks(column) for column in table.columns])
    nouns = tuple(dict.fromkeys((*synonyms.of_table(table.name), *table_nouns(table.name))))
    keys = {*table.links, *(table.key if len(table.key) == 1 else ())}
    columns = [
        (column, _spoken(table, column, synonyms)) for column in table.columns if column.name not in keys
    ]
    found = [said for _, said in columns if said is not None]
    if has_states:
        found = [_not_called_state(column) for column in found]
    return Spoken((table.name,), nouns, "", ("of",), tuple(_apart(_naming_first(found, table))))


def _without_blanks(column: ddl.Column) -> ddl.Column:
    """Nobody asks for a status that is ''."""
    return replace(column, values=tuple(value for value in column.values if value.strip()))


def has_column(table: ddl.Table, word: str) -> bool:
    """Whether one is called by this word alone."""
    return any(_own_words(table, words_of(column.name)) == [word] for column in table.columns)


def _not_called_state(column: spoken.Column) -> spoken.Column:
    if not column.measure.startswith("status_") or column.nouns[0] == "state":
        return column
    left = {
        field: tuple(it for it in getattr(column, field) if "state" not in it.split())
        for field in ("nouns", "after", "ask")
    }
    return replace(column, **left)  # type: ignore[arg-type]


def _naming_first(columns: list[spoken.Column], table: ddl.Table) -> list[spoken.Column]:
    by_noun = {column.nouns[0]: column for column in columns}
    if "first name" in by_noun and "last name" in by_noun:
        first = replace(by_noun["first name"], kind="name", pool="first", names=("first_name",))
        last = replace(by_noun["last name"], kind="name", pool="last", names=("last_name",))
        others = [it for it in columns if it.name not in (first.name, last.name)]
        return [first, last, *others] if _can_name(first) and _can_name(last) else columns
    texts = {noun: it for noun, it in by_noun.items() if it.kind in ("cat", "text") and not it.values}
    chosen = next((texts[noun] for noun in (*_NAMES, *_FIRMS) if noun in texts), None)
    if chosen is None:
        return columns
    noun = chosen.nouns[0]
    person = table_words(table.name)[-1] in PERSONS
    pool = "firm" if noun in _FIRMS else "person" if person else "thing" if noun != "username" else "first"
    named = replace(chosen, kind="name", pool=pool, before=False, after=(), names=("name",))
    shorter = {"person": "first", "thing": "place"}.get(pool, pool)
    if not _can_name(named):
        named = replace(named, pool=shorter)
    if not _can_name(named):
        return columns
    # Two columns that could name a row: the other one is a column like any other.
    return [named, *(it for it in columns if it.name != chosen.name)]


def _apart(columns: list[spoken.Column]) -> list[spoken.Column]:
    """A word that could mean two columns means the one that has it in its name, or the first one."""
    fields = ("nouns", "highest", "lowest", "more", "less", "ask", "after")
    single = ("verb", "how")
    literal = {column.nouns[0]: column.name for column in columns}
    owners = {field: _owners(columns, field) for field in single}
    taken: set[str] = set()
    found = []
    for column in columns:
        left = {
            field: tuple(
                word
                for word in getattr(column, field)
                if word not in taken and literal.get(word, column.name) == column.name
            )
            for field in fields
        }
        taken.update(word for words in left.values() for word in words)
        theirs = {field: "" for field in single if owners[field][getattr(column, field)] != column.name}
        if left["nouns"]:
            found.append(replace(column, **left, **theirs))  # type: ignore[arg-type]
    return found


def _owners(columns: list[spoken.Column], field: str) -> dict[str, str]:
    """The column that each word of the field is said of: of `order_date` and `placed_at` the second one."""
    found: dict[str, str] = {}
    for column in sorted(columns, key=lambda it: getattr(it, field) not in " ".join(words_of(it.name))):
        found.setdefault(getattr(column, field), column.name)
    return found


def _spoken(table: ddl.Table, column: ddl.Column, synonyms: Synonyms) -> spoken.Column | None:
    words = _own_words(table, words_of(column.name))
    phrase = " ".join(words)
    if not words or column.kind == "other" or (words[-1] == "id" and not column.values):
        return None
    found = _of_kind(table, column, words, phrase)
    if found is None:
        return None
    found = _that_fits(replace(found, length=column.length or 0), column)
    # `founded` is a founding date, said as `founded in 2020`; nobody says "a founded", or "an is active".
    is_flag = found.kind == "bool" or (_is_flag_name(words) and column.kind in ("int", "text"))
    phrase = found.nouns[0] if is_flag or found.verb == phrase else phrase
    nouns = tuple(dict.fromkeys((phrase, *synonyms.of_column(table.name, column.name), *found.nouns)))
    return replace(
        found,
        nouns=nouns,
        nullable=column.nullable,
        name=column.name,
        sql=sql_name(column.name),
        timed=column.kind == "datetime" or _is_timed_text(column, found, words),
    )


def _is_timed_text(column: ddl.Column, found: spoken.Column, words: list[str]) -> bool:
    """SQLite has no type for times: `created_at TEXT` is where they usually are."""
    is_long_enough = not column.length or column.length >= _TIME_LENGTH
    return column.kind == "text" and found.kind == "date" and words[-1] in ("at", "time") and is_long_enough


def _that_fits(found: spoken.Column, column: ddl.Column) -> spoken.Column:
    """With the words that the column has room for. How a column writes its words that has room for none, as
    `gender CHAR(1)`, is not known: nothing is compared with it."""
    if not found.length or found.kind != "cat" or column.values:
        return found
    if listed := found.values or _listed_words(found.pool):
        fitting = tuple(word for word in listed if len(word) <= found.length)
        if len(fitting) > 1:
            return replace(found, values=fitting) if found.values else replace(found, pool="|".join(fitting))
    elif _have_room(found, _FEWEST_WORDS):
        return found
    return spoken.Column(found.names, found.nouns, "text", pool="notes", length=found.length)


def _listed_words(pool: str) -> tuple[str, ...]:
    return tuple(pool.split("|")) if "|" in pool else ()


def _can_name(column: spoken.Column) -> bool:
    return not column.length or _have_room(column, _FEWEST_NAMES)


def _have_room(column: spoken.Column, count: int) -> bool:
    """Whether so many words of the pool fit, of training as of held-out rows."""
    if column.pool == "code":
        return True
    return all(
        sum(len(word) <= column.length for word in _every(column.pool, held_out)) >= count
        for held_out in (False, True)
    )


@cache
def _every(pool: str, held_out: bool) -> tuple[str, ...]:
    draw = Draw(pool)
    if pool == "person":
        firsts, lasts = (pools.pool(part, held_out, draw, 1000) for part in ("first", "last"))
        return tuple(f"{first} {last}" for first in firsts for last in lasts)
    return tuple(pools.pool(pool, held_out, draw, 1000))


def _drawn(column: spoken.Column, draw: Draw, *, held_out: bool) -> list[str]:
    """Words of the column's pool that it has room for."""
    if column.pool == "code" and 0 < column.length < _CODE_LENGTH:
        return _short_codes(column.length, draw)
    words = pools.pool(column.pool, held_out, draw)
    if not column.length or all(len(word) <= column.length for word in words):
        return words
    fitting = [word for word in _every(column.pool, held_out) if len(word) <= column.length]
    return draw.some(fitting, len(words))


def _short_codes(length: int, draw: Draw) -> list[str]:
    letters = "ABCDEFGHKLMNPRSTUVWXYZ"
    if length == 1:
        return draw.some(letters, 12)
    if length == 2:
        return draw.some([a + b for a in letters for b in letters], 26)
    digits = length - 1
    return [f"{draw.one(letters)}{number}" for number in draw.some(range(10 ** (digits - 1), 10**digits), 26)]


def _own_words(table: ddl.Table, words: list[str]) -> list[str]:
    """`customer_name` of customers is a name."""
    own = table_words(table.name)
    if len(words) > len(own) and words[: len(own)] == own:
        return words[len(own) :]
    if len(words) > 1 and words[0] == own[-1] and words[1] not in ("of",):
        return words[1:]
    return words


def _of_kind(table: ddl.Table, column: ddl.Column, words: list[str], phrase: str) -> spoken.Column | None:
    yes_no = _yes_no(column)
    if yes_no or column.kind == "bool" or (_is_flag_name(words) and column.kind == "int" and _is_bit(column)):
        return replace(_flag(words), values=yes_no)
    if _is_flag_name(words) and column.kind in ("int", "text"):
        return _named_like_a_flag(table, column, words[1:])
    by_name = column.kind in ("text", "int") and _is_day(words) and not column.values
    by_name &= not column.length or column.length >= _DATE_LENGTH
    if column.kind in ("date", "datetime") or (by_name and column.kind == "text"):
        return _day(words if phrase != "date" else [table_words(table.name)[-1], "date"], phrase)
    if column.kind in ("int", "real", "year"):
        return _number(table, column, words, phrase)
    return _text(table, column, words, phrase)


def _is_flag_name(words: list[str]) -> bool:
    return words[0] in ("is", "has", "was", "can") and len(words) > 1


def _yes_no(column: ddl.Column) -> tuple[str, ...]:
    """The values of a column of text that has only these two, as they are written; else none."""
    if column.kind not in ("text", "bool") or len(column.values) != 2:
        return ()
    if column.kind == "bool" and _is_bit(column):
        return ()
    written = {value.casefold(): value for value in column.values}
    return next(((written[yes], written[no]) for yes, no in _YES_NO if {yes, no} == written.keys()), ())


def _is_bit(column: ddl.Column) -> bool:
    return not column.values or set(column.values) == {"0", "1"}


def _flag(words: list[str]) -> spoken.Column:
    rest = " ".join(words[1:] if _is_flag_name(words) else words)
    if words[0] == "has":
        return spoken.Column((rest,), (rest,), "bool", yes=f"with {rest}", no=f"without {rest}")
    return spoken.Column((rest,), (rest,), "bool", yes=rest, no=f"not {rest}")


def _named_like_a_flag(table: ddl.Table, column: ddl.Column, words: list[str]) -> spoken.Column:
    """Of several values it is like any other column. A text of which none are known may hold 'Y', 'true' or
    'x', so it is only shown, or missing."""
    phrase = " ".join(words)
    if not column.values:
        return spoken.Column(("_".join(words),), (f"{phrase} flag",), "text", pool="notes")
    found = (_text if column.kind == "text" else _number)(table, column, words, phrase)
    return replace(found, nouns=(phrase, *found.nouns))


def _is_day(words: list[str]) -> bool:
    return (
        words[-1] in ("date", "day", "birthday", "birthdate")
        or (len(words) > 1 and words[-1] in ("at", "on") and words[-2].endswith("ed"))
        or words[:1] == ["date"]
    )


def _day(words: list[str], phrase: str) -> spoken.Column:
    if words[-1] in ("at", "on") and len(words) > 1:
        verb = " ".join(words[:-1])
        noun = f"{verb} date" if verb.endswith("ed") else phrase
        return spoken.Column((phrase,), (noun,), "date", verb=verb if verb.endswith("ed") else "")
    if len(words) == 1 and phrase.endswith("ed") and not phrase.endswith("eed"):
        return spoken.Column((phrase,), (f"{phrase} date",), "date", verb=phrase)
    verb = _VERBS.get(words[0], "") if words[-1] == "date" and len(words) == 2 else ""
    return spoken.Column((phrase,), (phrase,), "date", verb=verb)


def _number(table: ddl.Table, column: ddl.Column, words: list[str], phrase: str) -> spoken.Column:
    snake, last = "_".join(words), words[-1]
    measures = _measures()
    noun = table_words(table.name)[-1]
    if snake == "length" and noun in _MADE_FOR_MINUTES:
        snake = "minutes"
    concept = measures.get(snake) if snake != "year" or noun in _RELEASED else None
    if column.values and all(value.lstrip("-").isdigit() for value in column.values):
        return spoken.Column((snake,), (phrase,), "cat", column.values)
    if concept is not None:
        found = spoken.concepts()[concept]
    elif last in measures and last != "number":
        # `replacement_cost` is a cost, but not what "expensive" means.
        like = spoken.concepts()[measures[last]]
        found = spoken.Column(
            (snake,),
            (),
            "number",
            low=like.low,
            high=like.high,
            step=like.step,
            measure=like.measure,
            units=like.units,
        )
    else:
        low, high, step = _ANY_NUMBER
        found = spoken.Column((snake,), (), "number", low=low, high=high, step=step, measure="~")
    if column.kind == "year" or (last == "year" and concept is None):
        found = replace(found, low=1950, high=2023, step=1)
    counted = next((phrase.removeprefix(start) for start in _COUNTED if phrase.startswith(start)), "")
    counted = counted or (" ".join(words[:-1]) + "s" if last == "count" and len(words) > 1 else "")
    if concept is None and (counted or (singular(last) != last and last not in ("status", "bonus"))):
        found = replace(found, measure="#", nouns=(counted,) if counted else ())
    return _bounded(found, column)


def _bounded(found: spoken.Column, column: ddl.Column) -> spoken.Column:
    """Inside the column's check, which may be narrower."""
    if column.low is None and column.high is None:
        return found
    low, high = column.low, column.high
    if low is None and high is not None:
        low = next(it for it in (found.low, 0.0, high - 100 * found.step) if it < high)
    elif high is None and low is not None:
        high = max(found.high, low + 100 * found.step)
    if column.kind == "real":
        return _in_steps(found, low or 0.0, high or 0.0)
    low, high = float(int(low or 0)), float(int(high or 0))
    if high - low < 2:
        return replace(found, low=low, high=low + 2)
    return replace(found, low=low, high=high, step=1 if high - low < 100 * found.step else found.step)


def _in_steps(found: spoken.Column, low: float, high: float) -> spoken.Column:
    """Of a column with decimals: within these bounds, in steps as short as people write them."""
    high = high if high > low else low + 2
    step = 1.0 if high - low < 100 * found.step else found.step
    if high - low < FEWEST_STEPS:
        # Nobody counts such numbers, and 0.2 is not 0.2 percent.
        found = replace(found, measure="~" if found.countable else found.measure)
        if "percent" in found.units:
            found = replace(found, units=(), more=(), less=())
        step = fine_step(high - low)
    if step > 1 or math.isinf(high - low):
        return replace(found, low=float(int(low)), high=float(int(high)), step=step)
    low = first_step(low, step)
    return replace(found, low=low, high=low + step * math.floor(round((high - low) / step, 6)), step=step)


def fine_step(width: float) -> float:
    """A part of 1 that has enough multiples in a range of this width."""
    step = 0.05
    return step if width >= FEWEST_STEPS * step else 10.0 ** math.floor(math.log10(width / FEWEST_STEPS))


def first_step(start: float, step: float) -> float:
    """The first multiple of the step that is not below."""
    count = start / step
    return math.ceil(round(count, 6)) * step if math.isfinite(count) else start


def _text(table: ddl.Table, column: ddl.Column, words: list[str], phrase: str) -> spoken.Column:
    snake, last = "_".join(words), words[-1]
    if column.values:
        facet = _facet(table, snake)
        like = spoken.concepts()[facet] if facet else spoken.Column((snake,), (), "cat")
        # `paid orders` is said of words in small letters, and of no others.
        before = like.before and all(value.isalpha() and value.islower() for value in column.values)
        return replace(like, kind="cat", values=column.values, pool="", before=before)
    if last in ("email", "mail") or _TEXTS & {last, singular(last)} or words[0] in _TEXTS:
        pool = last if last in TEXTS else "website" if last in ("url", "homepage") else "notes"
        return spoken.Column((snake,), (), "text", pool=pool)
    facet = _facet(table, snake)
    if facet:
        return spoken.concepts()[facet]
    person = words[-2] if last == "name" and len(words) > 1 else last
    if person in _ROLES or person in PERSONS:
        return spoken.Column((snake,), (), "cat", pool="person", after=_ROLES.get(person, ()))
    pool = "code" if _CODES & set(words) else GENERIC.get(last, "thing")
    if phrase in ("first name", "last name"):
        pool = words[0]
    return spoken.Column((snake,), (), "cat", pool=pool)


GENERIC = {
    "city": "cities",
    "country": "countries",
    "genre": "Rock|Jazz|Comedy|Drama|Classical|Thriller",
    "category": "Garden|Kitchen|Toys|Sports|Office|Books",
    "type": "standard|premium|basic|custom|trial",
    "kind": "standard|premium|basic|custom|trial",
    "state": "Texas|Ohio|Bavaria|Ontario|Victoria|Utah",
    "format": "small|medium|large|digital",
    "currency": "EUR|USD|GBP|JPY|CHF",
    "unit": "kg|piece|box|litre|pair",
    "method": "card|cash|transfer|voucher",
    "code": "code",
    "company": "firm",
    "supplier": "firm",
    "publisher": "firm",
    "title": "job",
    "team": "Red|Blue|Green|Gold",
}


def _facet(table: ddl.Table, snake: str) -> str:
    noun = table_words(table.name)[-1]
    if snake in ("city", "town", "country", "hometown"):
        kind = "country" if snake == "country" else "city"
        return f"{kind}_home" if noun in PERSONS else f"{kind}_site"
    status = next((facet for facet, nouns in _STATUS.items() if noun in nouns), "")
    if snake == "status":
        return status or "status_case"
    if snake == "state":
        # Of customers, and of orders that also have a status, it is a part of a country.
        return "" if has_column(table, "status") else status
    return next(
        (
            concept
            for concept, column in spoken.concepts().items()
            if column.kind == "cat" and snake in column.names
        ),
        "",
    )


def spec(column: spoken.Column, draw: Draw, rows: int, *, held_out: bool) -> list[Any]:
    """How the scorer generates its content (see scorers/sql_data.py). Held-out rows have other names."""
    name, nullable = column.name, column.nullable
    if column.kind == "name":
        return [name, "name", _drawn(column, draw, held_out=held_out)]
    as_written = {"text": _shown(column), "bool": list(column.values)}.get(column.kind)
    if as_written:
        return [name, "cat", as_written, nullable]
    if column.kind == "cat":
        words = list(column.values or _listed_words(column.pool)) or _drawn(column, draw, held_out=held_out)
        words = words if column.values else draw.some(words, draw.between(4, 5))
        numbers = all(word.lstrip("-").isdigit() for word in words)
        return [name, "cat", [int(word) if numbers else word for word in words], nullable]
    if column.kind in ("date", "bool"):
        return [name, "datetime" if column.timed else column.kind, nullable]
    low, high, step = column.low, column.high, column.step
    if (high - low) / step + 1 < rows + 2:
        return [name, "cat", _listed(low, high, step), nullable]
    return [name, "number", low, high, int(step) if step == int(step) else step, nullable]


def _shown(column: spoken.Column) -> list[str] | None:
    words = TEXTS.get(column.pool)
    if words is None or not column.length:
        return words
    fitting = [word for word in words if len(word) <= column.length]
    return fitting if len(fitting) > 2 else [word[: column.length] for word in _SHORT_TEXTS]


def _listed(low: float, high: float, step: float) -> list[float]:
    if step >= 1:
        return list(range(int(low), int(high) + 1))
    return [round(low + place * step, 6) for place in range(round((high - low) / step) + 1)]
