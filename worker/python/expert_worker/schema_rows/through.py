"""Questions over a table that only links two others: playlists and tracks, films and actors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql.conditions import literal
from expert_worker.evaluate.authoring.sql.question import Question, shown
from expert_worker.evaluate.authoring.sql.scene import Placed, Scene
from expert_worker.evaluate.authoring.sql.tables import Table as Spoken
from expert_worker.evaluate.authoring.sql.words import many

from .columns import sql_name
from .ddl import Table
from .scenes import Database

LISTED = (
    "Which {as} are in the {b} {v}?",
    "Show the {as} of the {b} {v}",
    "List all {as} of {b} {v}",
    "{as} of the {b} {v}",
    "What {as} does the {b} {v} have?",
    "Which {as} belong to the {b} {v}?",
    "Find the {as} for the {b} {v}",
)
COUNTED = (
    "How many {as} does the {b} {v} have?",
    "Number of {as} of the {b} {v}",
    "Count the {as} in the {b} {v}",
    "How many {as} are in the {b} {v}?",
    "How many {as} belong to the {b} {v}?",
)
PER = (
    "How many {as} does each {b} have?",
    "Number of {as} per {b}",
    "Count the {as} of each {b}",
    "{as} per {b}",
    "Show every {b} with its number of {as}",
    "How many {as} are there for each {b}?",
)
MOST = (
    "Which {b} has the most {as}?",
    "{b} with the most {as}",
    "Find the {b} with the highest number of {as}",
    "What {b} has the largest number of {as}?",
    "The {b} that has the most {as}",
)


@dataclass(frozen=True)
class Junction:
    table: str
    # Column and table, of each side.
    sides: tuple[tuple[str, str], ...]


def junctions(database: Database) -> list[Junction]:
    found = []
    for table in database.schema.tables:
        sides = tuple(
            (column, parent)
            for column, parent in table.links.items()
            if parent in database.spoken and parent != table.name
        )
        others = [column for column in table.columns if column.name not in table.links]
        if (
            len({parent for _, parent in sides}) == len(sides) == 2
            and _is_once(table, {column for column, _ in sides})
            and len(others) <= 4
        ):
            found.append(Junction(table.name, sides))
    return found


def _is_once(table: Table, links: set[str]) -> bool:
    """Whether each pair is there at most once: the lines of an order are not its products."""
    return set(table.key) == links if table.key else len(table.columns) == len(links)


def through(
    database: Database, found: list[Junction], draw: Draw, *, held_out: bool
) -> tuple[Question, Scene] | None:
    junction = draw.one(found)
    (near_column, near_name), (far_column, far_name) = draw.shuffled(junction.sides)
    near = database.placed(near_name, draw, held_out=held_out)
    far = database.placed(far_name, draw, held_out=held_out)
    own = sql_name(junction.table)
    to_near = f"{own} JOIN {near.sql} ON {own}.{sql_name(near_column)} = {near.sql}.{near.key_sql}"
    to_far = f"JOIN {far.sql} ON {own}.{sql_name(far_column)} = {far.sql}.{far.key_sql}"
    words = {"as": many(near.noun), "b": far.noun}
    # A name that is not in all three databases is dropped, so it is asked for more often.
    kind = draw.weighted(("through", "through-count", "through-group", "through-top"), (30, 15, 2, 2))
    if not far.shown:
        return None
    per = f"{shown(far, qualified=True)}"
    group = f"FROM {own} {to_far} GROUP BY {far.sql}.{far.key_sql}"
    weaker: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    if kind == "through-group":
        text, sql = draw.one(PER).format(**words), f"SELECT {per}, COUNT(*) {group}"
    elif kind == "through-top":
        text, sql = draw.one(MOST).format(**words), f"SELECT {per} {group} ORDER BY COUNT(*) DESC LIMIT 1"
        weaker = (f"SELECT {per} {group}",)
    else:
        if len(far.shown) != 1 or not near.shown:
            return None
        value = str(draw.one(far.spec(far.shown[0])[2]))
        test = f"WHERE {far.sql}.{far.shown[0].sql} = {literal(value)}"
        keep, words["v"] = (value,), value
        if kind == "through":
            body = f"SELECT {shown(near, qualified=True)} FROM {to_near} {to_far}"  # noqa: S608
            text = draw.one(LISTED).format(**words)
        else:
            body = f"SELECT COUNT(*) FROM {own} {to_far}"  # noqa: S608
            text = draw.one(COUNTED).format(**words)
        sql, weaker = f"{body} {test}", (body,)
    tables = (near, far, _bare(junction.table, near))
    question = Question(kind, text, sql, 3, (kind,), tables, weaker, keep)
    return question, Scene((near, far), "snake", draw, held_out)


def _bare(name: str, like: Placed) -> Placed:
    """The linking table, of which a question says nothing."""
    return replace(like, table=Spoken((name,), (), "", (), ()), name=name, sql=sql_name(name), noun="")
