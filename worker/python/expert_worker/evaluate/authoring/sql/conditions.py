"""Conditions: the same thing said as people say it and in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import quoted

from . import pools
from .columns import Column
from .scene import Placed

ABOVE = ("more than", "over", "above", "greater than", "higher than", "bigger than", ">")
BELOW = ("less than", "under", "below", "lower than", "smaller than", "<")
LEAST = ("at least", ">=", "no less than", "not less than")
MOST = ("at most", "<=", "no more than", "up to")
COUNTED = {">": ("more than", "over"), "<": ("fewer than", "less than", "under"), ">=": ("at least",), "<=": ("at most", "no more than")}  # fmt: skip
YEARS = {
    ">": ("after", "later than"),
    "<": ("before", "earlier than"),
    ">=": ("since", "from", "no earlier than"),
}
UP_TO = {">=": ("or more", "or higher", "and up"), "<=": ("or less", "or lower")}
SIGNS = {">": ABOVE, "<": BELOW, ">=": LEAST, "<=": MOST}
# Verbs that say what a row did itself, and their plain forms; others say what was done to it.
ACTIVE = {
    "joined": "join", "graduated": "graduate", "signed up": "sign up", "departed": "depart", "started": "start", "moved in": "move in",
    "enlisted": "enlist", "sailed": "sail", "began": "begin", "fell": "fall", "applied": "apply", "ended": "end",
    "arrived": "arrive", "erupted": "erupt", "closed": "close", "registered": "register",
}  # fmt: skip
STANDING = {"starts": "start", "expires": "expire", "ends": "end", "begins": "begin"}
ADJECTIVES = {"private", "public", "failed", "pending"}


@dataclass(frozen=True)
class Condition:
    """`before` stands before the noun, `after` behind it; `keep` are the words that SQL repeats."""

    before: str
    after: str
    sql: str
    tags: tuple[str, ...]
    columns: tuple[str, ...]
    keep: tuple[str, ...] = ()

    @property
    def predicate(self) -> str:
        """What can follow a plural noun as a clause: `are in Porto`, `have more than 3 rooms`; empty if nothing can."""
        for opening, clause in (("with a ", "have a "), ("with an ", "have an "), ("with ", "have "), ("that ", ""), ("who ", "")):  # fmt: skip
            if self.after.startswith(opening):
                return clause + self.after[len(opening) :]
        if (
            self.before
            or not self.after
            or self.after.startswith(("whose", "where", "without", "for", "of "))
        ):
            return ""
        return f"are {self.after}"


def literal(value: object) -> str:
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeioAEIO" and not noun.startswith(("one", "eu")) else f"a {noun}"


def condition(
    table: Placed, draw: Draw, *, qualified: bool = False, avoid: tuple[str, ...] = ()
) -> Condition | None:
    """One condition on a column of the table; `qualified` puts the table's name before the column's in SQL."""
    columns = [column for column in table.columns if column.name not in avoid]
    weights = [
        WEIGHTS[column.kind] * (0.5 if column in table.shown else 3 if column.nullable else 1)
        for column in columns
    ]
    if not columns:
        return None
    column = draw.weighted(columns, weights)
    sql = f"{table.sql}.{column.sql}" if qualified else column.sql
    maker = draw.one(MAKERS[column.kind])
    if column.nullable and draw.chance(MISSING):
        maker = draw.one((_missing, _missing, _missing, _missing, _present))
    found = maker(table, column, sql, draw)
    if found is not None and table.who == "who" and found.after.startswith("that "):
        return Condition(
            found.before, f"who {found.after[5:]}", found.sql, found.tags, found.columns, found.keep
        )
    return found


def conditions(table: Placed, draw: Draw, count: int, *, qualified: bool = False) -> Condition | None:
    """None for a count of 0; two are joined by one `and` or `or`."""
    first = condition(table, draw, qualified=qualified) if count else None
    if count < 2 or first is None:
        return first
    second = condition(table, draw, qualified=qualified, avoid=first.columns)
    if second is None or (first.before and second.before):
        return first
    return _joined(first, second, draw)


def _joined(first: Condition, second: Condition, draw: Draw) -> Condition:
    columns, keep = first.columns + second.columns, first.keep + second.keep
    if not first.before and not second.before and draw.chance(0.2):
        text = f"{first.after} or {second.after}"
        return Condition(
            "", text, f"{first.sql} OR {second.sql}", (*first.tags, *second.tags, "or"), columns, keep
        )
    left, right = sorted((first.after, second.after), key=lambda text: text.startswith(CLAUSES))
    alike = left.split(" ")[0] == right.split(" ")[0]
    middle = " and " if left and (alike or draw.chance(0.35) or left.startswith(CLAUSES)) else " "
    tags = tuple(dict.fromkeys([*first.tags, *second.tags, "and"]))
    after = f"{left}{middle}{right}".strip()
    return Condition(
        first.before or second.before, after, f"{first.sql} AND {second.sql}", tags, columns, keep
    )


CLAUSES = ("that ", "who ", "whose ", "where ", "which ")


def value_of(table: Placed, column: Column, draw: Draw) -> object:
    return draw.one(table.spec(column)[2])


def _said(column: Column, value: object, draw: Draw) -> tuple[str, str]:
    """A value before or behind the noun."""
    if column.before and draw.chance(0.45):
        return str(value), ""
    if column.after and draw.chance(0.75):
        return "", draw.one(column.after).format(v=value)
    noun, text = draw.one(column.nouns), quoted(str(value), draw)
    return "", draw.one(
        ("with {n} {v}", "whose {n} is {v}", "where the {n} is {v}", "where {n} is {v}", "with {n} = {v}")
    ).format(n=noun, v=text)


def _equal(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:
    value = value_of(table, column, draw)
    before, after = _said(column, value, draw)
    return Condition(before, after, f"{sql} = {literal(value)}", ("equals",), (column.name,), (str(value),))


def _unequal(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:
    value = value_of(table, column, draw)
    noun = draw.one(column.nouns)
    forms = [
        "with {n} other than {v}",
        "whose {n} is not {v}",
        "where the {n} isn't {v}",
        "whose {n} isn't {v}",
    ]
    forms += [
        f"not {text}"
        for text in column.after
        if not text.startswith(("that ", "which ", "still ", "currently "))
    ]
    after = draw.one(forms).format(n=noun, v=value)
    return Condition("", after, f"{sql} <> {literal(value)}", ("not-equal",), (column.name,), (str(value),))


def _one_of(table: Placed, column: Column, sql: str, draw: Draw) -> Condition | None:
    words = table.spec(column)[2]
    if len(words) < 4:
        return None
    values = draw.some(words, 2 if draw.chance(0.8) else 3)
    said = " or ".join([", ".join(map(str, values[:-1])), str(values[-1])])
    noun = draw.one(column.nouns)
    forms = ["with {n} {v}", "whose {n} is {v}", "whose {n} is either {v}", *column.after, *column.after]
    if column.before:
        return Condition(
            said, "", f"{sql} IN ({', '.join(map(literal, values))})", ("in-list",), (column.name,), tuple(map(str, values))
        )  # fmt: skip
    after = draw.one(forms).format(n=noun, v=said)
    keep = tuple(map(str, values))
    return Condition(
        "", after, f"{sql} IN ({', '.join(map(literal, values))})", ("in-list",), (column.name,), keep
    )


def number_in(column: Column, draw: Draw, low: float = 0.15, high: float = 0.85) -> float:
    """A number well inside the column's range, rounded as people round."""
    start, end = column.low, column.high
    number = start + (end - start) * (low + (high - low) * draw.below(1000) / 1000)
    if column.step < 1 and end - start < 10:
        found = round(start + round((number - start) / column.step) * column.step, 6)
        return int(found) if found == int(found) else found
    if column.is_year:
        return int(number) if draw.chance(0.4) else round(number / 10) * 10
    step = 1 if number < 30 else 5 if number < 100 else 10 if number < 500 else 100
    return int(number) if draw.chance(0.15) else max(int(round(number / step) * step), int(start) + 1)


def unit(column: Column, draw: Draw) -> str:
    return f" {draw.one(column.units)}" if column.units and draw.chance(0.5) else ""


def _compare(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    number = number_in(column, draw)
    sign = draw.weighted((">", "<", ">=", "<="), (10, 8, 4, 2))
    if column.is_year and sign == "<=":
        sign = "<"
    if column.measure == "seconds" and "sec" in column.name.lower() and draw.chance(0.3):
        return _in_minutes(column, sql, sign, draw)
    if column.measure == "milliseconds" and draw.chance(0.7):
        return (
            _in_minutes(column, sql, sign, draw, 60_000)
            if draw.chance(0.5)
            else _in_seconds(column, sql, sign, draw)
        )
    own = {">": column.more, "<": column.less}.get(sign, ())
    if own and draw.chance(0.7):
        after = draw.one(own).format(n=number, u=unit(column, draw))
        return Condition("", after, f"{sql} {sign} {number}", ("compare",), (column.name,), (str(number),))
    noun = draw.one(column.nouns)
    if sign in UP_TO and draw.chance(0.4):
        form = "with {n} {w} {x}" if column.countable else draw.one(("with {a} of {n}{u} {w}", "with {x} {n} {w}", "where {x} is {n} {w}"))  # fmt: skip
        words = draw.one(UP_TO[sign])
        after = form.format(a=a(noun), x=noun, w=words, n=number, u=unit(column, draw))
    elif column.countable:
        words = draw.one(COUNTED[sign])
        after = draw.one(("with {w} {n} {x}", "that have {w} {n} {x}", "with {w} {n} {x}")).format(w=words, n=number, x=noun)  # fmt: skip
    else:
        words = draw.one((YEARS if column.is_year else SIGNS)[sign])
        form = draw.one(
            ("with {a} {w} {n}{u}", "with {a} of {w} {n}{u}" if words in (*LEAST, *MOST, "over", "more than") else "with {a} {w} {n}{u}",
             "whose {x} is {w} {n}{u}", "where the {x} is {w} {n}{u}", "where {x} is {w} {n}")
        )  # fmt: skip
        after = form.format(a=a(noun), x=noun, w=words, n=number, u=unit(column, draw))
    return Condition("", after, f"{sql} {sign} {number}", ("compare",), (column.name,), (str(number),))


LENGTHS = {">": "longer than", "<": "shorter than", ">=": "of at least", "<=": "of at most"}


def _in_minutes(column: Column, sql: str, sign: str, draw: Draw, stored: int = 60) -> Condition:
    """Said in minutes, stored in seconds or their thousandths."""
    minutes = draw.one((1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30))
    unit_word = "minute" if minutes == 1 else "minutes"
    after = f"{LENGTHS[sign]} {minutes} {unit_word}"
    return Condition(
        "", after, f"{sql} {sign} {minutes * stored}", ("compare", "unit"), (column.name,), (str(minutes),)
    )


def _in_seconds(column: Column, sql: str, sign: str, draw: Draw) -> Condition:
    """Said in seconds, stored in their thousandths."""
    seconds = draw.between(3, 60) * 10
    after = f"{LENGTHS[sign]} {seconds} {draw.one(('seconds', 'sec'))}"
    return Condition(
        "", after, f"{sql} {sign} {seconds * 1000}", ("compare", "unit"), (column.name,), (str(seconds),)
    )


def _between(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    low, high = number_in(column, draw, 0.1, 0.4), number_in(column, draw, 0.6, 0.9)
    noun = draw.one(column.nouns)
    if column.countable:
        form = draw.one(
            ("with {l} to {h} {x}", "with between {l} and {h} {x}", "that have between {l} and {h} {x}")
        )
    else:
        form = draw.one(
            (
                "with {a} between {l} and {h}{u}",
                "whose {x} is between {l} and {h}{u}",
                "with {x} from {l} to {h}",
            )
        )
    after = form.format(a=a(noun), x=noun, l=low, h=high, u=unit(column, draw))
    return Condition(
        "", after, f"{sql} BETWEEN {low} AND {high}", ("between",), (column.name,), (str(low), str(high))
    )


def _exactly(table: Placed, column: Column, sql: str, draw: Draw) -> Condition | None:
    spec = table.spec(column)
    if not column.countable or spec[1] != "cat":
        return None
    number = draw.one([value for value in spec[2] if value > 1])
    after = draw.one(("with exactly {n} {x}", "with {n} {x}", "that have {n} {x}")).format(
        n=number, x=column.nouns[0]
    )
    return Condition("", after, f"{sql} = {number}", ("equals",), (column.name,), (str(number),))


def _like(table: Placed, column: Column, sql: str, draw: Draw) -> Condition | None:
    value, noun = str(value_of(table, column, draw)), draw.one(column.nouns)
    if column.pool in ("code", "email"):
        return None
    part = value.rsplit(" ", 1)[-1] if " " in value else value[: draw.between(2, 3)]
    contains = ("with {v} in the {n}", "whose {n} contains {v}", "with {a} containing {v}", "that have {v} in their {n}", "where {n} has {v} in it")  # fmt: skip
    if draw.chance(0.35):
        text, pattern = value[0], f"{value[0]}%"
        form = draw.one(("whose {n} starts with {v}", "with {a} starting with {v}", "whose {n} begins with {v}", "where {n} starts with {v}"))  # fmt: skip
    elif " " in value:
        text, pattern = part, f"%{part}%"
        form = draw.one(contains)
    elif len(value) > 3 and draw.chance(0.6):
        text, pattern = value, f"%{value}%"
        form = draw.one(contains)
    else:
        text, pattern = value[-1], f"%{value[-1]}"
        form = draw.one(("whose {n} ends with {v}", "with {a} ending in {v}", "whose {n} ends in {v}"))
    shown = quoted(text, draw) if len(text) > 1 else draw.one(("'{}'", "{}", '"{}"')).format(text)
    return Condition("", form.format(n=noun, a=a(noun), v=shown), f"{sql} LIKE '{pattern}'", ("like",), (column.name,), (text,))  # fmt: skip


def _when(sql: str, draw: Draw) -> tuple[str, str, str, tuple[str, ...]]:
    """When, the test, its tag and the words to keep."""
    year, month, day = draw.between(2022, 2024), draw.between(1, 12), draw.between(1, 28)
    name = pools.MONTHS[month - 1]
    kind = draw.weighted(("year", "month", "since", "before", "after", "day"), (5, 5, 3, 3, 3, 6))
    if kind == "year":
        return draw.one((f"in {year}", f"in {year}", f"during {year}")), f"strftime('%Y', {sql}) = '{year}'", "date-part", (str(year),)  # fmt: skip
    if kind == "month":
        return (
            f"in {name} {year}",
            f"strftime('%Y-%m', {sql}) = '{year}-{month:02d}'",
            "date-part",
            (name, str(year)),
        )
    if kind == "day":
        word, sign = draw.one((("after", ">"), ("before", "<"), ("since", ">="), ("on or after", ">=")))
        iso = f"{year}-{month:02d}-{day:02d}"
        said = draw.weighted((iso, f"{name} {day}, {year}", f"{day} {name} {year}"), (4, 3, 3))
        return f"{word} {said}", f"{sql} {sign} '{iso}'", "date-compare", (said,)
    if draw.chance(0.35):
        words, sign = ("since", ">=") if kind != "before" else ("before", "<")
        return (
            f"{words} {name} {year}",
            f"{sql} {sign} '{year}-{month:02d}-01'",
            "date-compare",
            (name, str(year)),
        )
    year = draw.between(2023, 2024) if kind != "after" else draw.between(2022, 2023)
    if kind == "after":
        return f"after {year}", f"{sql} > '{year}-12-31'", "date-compare", (str(year),)
    word, sign = (
        draw.one((("since", ">="),))
        if kind == "since"
        else draw.one((("before", "<"), ("earlier than", "<")))
    )
    return f"{word} {year}", f"{sql} {sign} '{year}-01-01'", "date-compare", (str(year),)


def _date(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    when, test, tag, keep = _when(sql, draw)
    if column.timed and tag == "date-compare":
        test = test.replace(sql, f"date({sql})", 1)
    noun, verb = draw.one(column.nouns), column.verb
    forms = ["with {a} {w}", "whose {n} is {w}", "with {a} {w}"]
    if verb in ACTIVE:
        forms = ["that {v} {w}"] * 5 + forms
    elif verb in STANDING:
        forms = [f"that {STANDING[verb]} {{w}}"] * 4 + forms
    elif is_passive(verb):
        forms = ["{v} {w}"] * 4 + ["that were {v} {w}"] * 3 + forms
    after = draw.one(forms).format(a=a(noun), n=noun, w=when, v=verb)
    return Condition("", after, test, (tag,), (column.name,), keep)


def is_passive(verb: str) -> bool:
    irregular = (
        "bought sold sent given held seen taken lent found sown written built paid driven run cast done made"
    )
    last = verb.rsplit(" ", 1)[-1]
    first = verb.split(" ", 1)[0]
    return verb not in ACTIVE and (last.endswith("ed") or first.endswith("ed") or last in irregular.split())


# What is true of a row since something was done to it.
_HAPPENED_TEXT = """
accepted approved archived cancelled completed confirmed delivered discontinued done finished flagged granted paid
passed published recorded reimbursed repaired reported returned revoked signed sold solved used vaccinated verified
"""
HAPPENED = frozenset(_HAPPENED_TEXT.split())
ALREADY = ("that are already {}", "already {}", "that have been {}")
NOT_YET = ("not yet {}", "that are not {} yet", "that are still not {}", "that haven't been {}", "not {}")


def _bool(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    true = draw.chance(0.65)
    opposite = (
        column.no
        if column.no.startswith(("un", "in", "not ", "non", "without ")) or column.no in ADJECTIVES
        else ""
    )
    word = column.yes if true else opposite or f"not {column.yes}"
    if word.startswith("not with "):
        word = "without " + word.removeprefix("not with ")
    keep: tuple[str, ...] = ()
    if word.startswith(("with ", "without ")):
        before, after = "", word
    elif " " not in word and draw.chance(0.5):
        before, after = word, ""
    elif column.yes in HAPPENED and draw.chance(0.5):
        before, after = "", draw.one(ALREADY if true else NOT_YET).format(column.yes)
    else:
        before, after = "", f"that are {word}"
    # As text it has two values, of which the first one says yes.
    value = literal(column.values[0 if true else 1]) if column.values else int(true)
    return Condition(before, after, f"{sql} = {value}", ("bool",), (column.name,), keep)


NONE = (
    "without {a}", "without {a}", "with no {n}", "with no {n}", "that have no {n}", "that don't have {a}",
    "whose {n} is missing", "where the {n} is missing", "with no {n} on record", "with no {n} on file",
    "where {n} is empty", "with an unknown {n}", "that have no {n} yet", "lacking {a}", "missing {a}",
)  # fmt: skip
SOME = (
    "with {a}", "that have {a}", "with {a} on record", "with {a} on file", "where the {n} is known",
    "where {n} is filled in", "that do have {a}",
)  # fmt: skip


def _about(noun: str, forms: tuple[str, ...]) -> list[str]:
    """Nobody says `a years of experience`."""
    single = not (noun.endswith("s") or " of " in noun)
    return [form.format(a=a(noun), n=noun) for form in forms if single or "{a}" not in form]


def _missing(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    noun = draw.one(column.nouns)
    forms = _about(noun, NONE)
    if column.kind == "date" and column.verb in ACTIVE:
        forms = [f"that have not {column.verb} yet", f"that still haven't {column.verb}"] * 4 + forms
    elif column.kind == "date" and is_passive(column.verb):
        forms = [f"that have not been {column.verb} yet", f"not yet {column.verb}", f"that haven't been {column.verb}",
                 f"still not {column.verb}", f"that nobody has {column.verb} yet"] * 2 + forms  # fmt: skip
    return Condition("", draw.one([*forms, *column.none]), f"{sql} IS NULL", ("null",), (column.name,))


def _present(table: Placed, column: Column, sql: str, draw: Draw) -> Condition:  # noqa: ARG001
    noun = draw.one(column.nouns)
    forms = _about(noun, SOME)
    if column.kind == "date" and is_passive(column.verb):
        forms = [
            f"that have been {column.verb}",
            f"already {column.verb}",
            f"that are already {column.verb}",
            *forms,
        ]
    return Condition("", draw.one(forms), f"{sql} IS NOT NULL", ("null",), (column.name,))


# How often a question about a column that can be empty asks for the rows where it is, or is not.
MISSING = 0.6
Maker = Callable[[Placed, Column, str, Draw], Condition | None]
# Letters inside a word are hard to see for a model that reads tokens, so names are asked about less often.
WEIGHTS = {"name": 1.2, "text": 1.5, "cat": 4.0, "number": 4.0, "date": 3.0, "bool": 7.0}
MAKERS: dict[str, tuple[Maker, ...]] = {
    "name": (_like,),
    "text": (_missing, _missing, _present),
    "cat": (_equal, _equal, _equal, _equal, _unequal, _one_of),
    "number": (_compare, _compare, _compare, _compare, _between, _exactly),
    "date": (_date,),
    "bool": (_bool,),
}
