"""A question and its answer, and what all compositions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.phrasing import listed

from .columns import Column
from .conditions import Condition
from .scene import Placed

FUNCTIONS = {"average": "AVG", "total": "SUM", "highest": "MAX", "lowest": "MIN"}
SAID = {
    "average": ("average", "mean", "avg"),
    "total": ("total", "summed", "combined"),
    "highest": ("highest", "maximum", "max"),
    "lowest": ("lowest", "minimum", "min"),
}


@dataclass(frozen=True)
class Question:
    """`weaker` are queries that a careless reader would write; at least one database must distinguish each from `sql`."""

    intent: str
    text: str
    sql: str
    level: int
    tags: tuple[str, ...]
    tables: tuple[Placed, ...]
    weaker: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def where(found: Condition | None) -> str:
    return f" WHERE {found.sql}" if found else ""


def tags(found: Condition | None) -> tuple[str, ...]:
    return found.tags if found else ()


def keep(*found: Condition | None) -> tuple[str, ...]:
    return tuple(word for condition in found if condition for word in condition.keep)


def without(found: Condition | None, sql: str) -> tuple[str, ...]:
    """The query with its condition forgotten."""
    return (sql.replace(where(found), "", 1),) if found else ()


def shown(table: Placed, *, qualified: bool = False) -> str:
    prefix = f"{table.sql}." if qualified else ""
    return ", ".join(prefix + column.sql for column in table.shown)


def pick(
    table: Placed, draw: Draw, *kinds: str, solid: bool = False, avoid: Sequence[str] = ()
) -> Column | None:
    """A column of one of these kinds beside those that name the row; `solid` ones are never NULL."""
    found = [
        column
        for column in table.of_kind(*kinds)
        if not (solid and column.nullable) and column.name not in avoid
    ]
    return draw.one(found) if found else None


def said_columns(columns: Sequence[Column], draw: Draw) -> str:
    return listed([call(column, draw) for column in columns], draw)


# What follows a request to say which columns to show: all of them, or those beside the name.
ALL_COLUMNS = (
    "{t}, {c}",
    "{t} ({c})",
    "{t}: {c}",
    "{t}, show {c}",
    "{t}. {c}",
    "{t} - {c}",
    "{t}, {c} please",
)
MORE_COLUMNS = (
    "{t}, with {x}", "{t}, with {x}", "{t} with {x}", "{t}, with the {x}", "{t}, also {x}", "{t}, plus {x}",
    "{t} incl. {x}", "{t}, and the {x}",
)  # fmt: skip
AFTER_QUESTION = ("{t}? {c}", "{t}? Show {c}", "{t}? With {x}", "{t}? {c} please", "{t} ({c})?")


def with_columns(text: str, names: Sequence[str], columns: Sequence[Column], draw: Draw) -> str:
    """A request for rows by their name becomes one for that name and further columns."""
    more = [call(column, draw) for column in columns]
    all_columns, further = listed([*names, *more], draw), listed(more, draw)
    if text.endswith("?"):
        return draw.one(AFTER_QUESTION).format(t=text[:-1], c=all_columns, x=further)
    form = draw.one(ALL_COLUMNS if draw.chance(0.5) else MORE_COLUMNS)
    return form.format(t=text.rstrip("."), c=all_columns, x=further)


def call(column: Column, draw: Draw) -> str:
    noun = draw.one(column.nouns)
    if column.kind == "bool":
        return f"{column.yes} flag" if " " not in column.yes else noun
    return f"number of {noun}" if column.countable and draw.chance(0.4) else noun


def ordering(column: Column, falling: bool, *, prefix: str = "") -> str:
    return f" ORDER BY {prefix}{column.sql} {'DESC' if falling else 'ASC'}"
