"""A few tables of the schema that belong together, for one row's questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql.scene import PARENT_ROWS, ROWS, Placed, Scene
from expert_worker.evaluate.authoring.sql.tables import Table as Spoken

from . import ddl
from .columns import PERSONS, has_column, spec, spoken_table, sql_name
from .vocabulary import Synonyms, table_words, words_of

MOST_TABLES = 3
_DECIMAL = re.compile(r"DECIMAL\(\d+, ?\d+\)")
_KEY_ENDINGS = ("id", "number", "code", "key", "ref")
# A column's words that end so say what was done to a row (`created_by`), not what the other row is to it.
_NOT_NOUNS = ("by", "to", "from", "for", "at")
# How often another table joins those of a scene.
FURTHER = 0.65
TYPES = {
    "int": "INTEGER",
    "year": "INTEGER",
    "bool": "BOOLEAN",
    "date": "DATE",
    "datetime": "DATETIME",
    "other": "TEXT",
}


@dataclass(frozen=True)
class Link:
    child: str
    column: str
    parent: str
    # What the parent is to the child: the manager of a department.
    role: str


class Database:
    """The tables that questions can be about, and their links."""

    def __init__(self, schema: ddl.Schema, synonyms: Synonyms) -> None:
        self.schema = schema
        self.spoken: dict[str, Spoken] = {}
        has_states = any(has_column(table, "state") for table in schema.tables)
        for table in schema.tables:
            found = spoken_table(table, synonyms, has_states=has_states)
            if found.columns:
                self.spoken[table.name] = found
        # A noun that two tables share means the first of them.
        taken: set[str] = set()
        for name, table_spoken in self.spoken.items():
            nouns = tuple(noun for noun in table_spoken.nouns if noun not in taken) or (name.lower(),)
            taken.update(nouns)
            self.spoken[name] = replace(table_spoken, nouns=nouns)
        self.links = [link for table in schema.tables for link in self._links(table)]
        self.parents = {link.parent for link in self.links}
        # Only these words say by which of several columns a table is meant.
        self.told_apart = {
            link.role for link in self.links if self._ways(link.child, link.parent) > 1 and link.role
        }
        self._weights = [2 + min(len(self.spoken[name].columns), 5) for name in self.spoken]

    def _links(self, table: ddl.Table) -> list[Link]:
        """Those that a question can name. Of several links to one table, each has a noun that only it has:
        the home team and the away team of a match."""
        key = table.key[0] if len(table.key) == 1 else ""
        found: list[Link] = []
        for column, parent in table.links.items():
            if parent == table.name or column == key or not {table.name, parent} <= self.spoken.keys():
                continue
            role = _role(column, parent, is_only=self._ways(table.name, parent) == 1)
            if role is not None and (parent, role) not in [(it.parent, it.role) for it in found]:
                found.append(Link(table.name, column, parent, role))
        return found

    def _ways(self, child: str, parent: str) -> int:
        table = self.schema.table(child)
        return list(table.links.values()).count(parent) if table else 0

    def scene(self, draw: Draw, *, held_out: bool) -> Scene:
        names = [draw.weighted(tuple(self.spoken), self._weights)]
        chosen: dict[str, Link] = {}
        while len(names) < MOST_TABLES and draw.chance(FURTHER):
            near = [
                link
                for link in self.links
                if (link.child in names) != (link.parent in names)
                and not (link.child in names and link.child in chosen)
                # The table has one noun in a scene, which has to be right for each way to it.
                and all(it.role == link.role for it in chosen.values() if it.parent == link.parent)
            ]
            if not near:
                break
            link = draw.one(near)
            chosen[link.child] = link
            names.append(link.parent if link.child in names else link.child)
        placed = [
            self._placed(name, chosen.get(name), chosen, draw, held_out)
            for name in self.spoken
            if name in names
        ]
        return Scene(tuple(placed), "snake", draw, held_out)

    def placed(self, name: str, draw: Draw, *, held_out: bool) -> Placed:
        """A table of which no column refers to another of the scene."""
        return self._placed(name, None, {}, draw, held_out)

    def _placed(
        self, name: str, link: Link | None, chosen: dict[str, Link], draw: Draw, held_out: bool
    ) -> Placed:
        table, spoken = self.schema.table(name), self.spoken[name]
        assert table is not None
        role = next((it.role for it in chosen.values() if it.parent == name), "")
        noun = role or draw.weighted(spoken.nouns, (3, 2, *[1] * len(spoken.nouns))[: len(spoken.nouns)])
        rows = self.rows(name)
        specs = tuple(spec(column, draw, rows, held_out=held_out) for column in spoken.columns)
        key = table.key[0] if len(table.key) == 1 else (link.column if link else spoken.columns[0].name)
        found = Placed(
            replace(spoken, parent=link.parent if link else ""),
            name,
            sql_name(name),
            noun,
            key,
            sql_name(key),
            spoken.columns,
            specs,
            rows,
        )
        if link is None:
            return found
        person = table_words(link.parent)[-1] in PERSONS
        prep = draw.one(("of", "by", "from") if person else ("of", "in", "for"))
        column = next(it for it in table.columns if it.name == link.column)
        return replace(
            found, ref=link.column, ref_sql=sql_name(link.column), prep=prep, loose=column.nullable
        )

    def rows(self, name: str) -> int:
        return PARENT_ROWS if name in self.parents else ROWS

    def described(self, name: str, placed: Placed | None, draw: Draw) -> dict[str, Any]:
        """The table's content for the scorer, in the order of its columns."""
        table, spoken = self.schema.table(name), self.spoken.get(name)
        assert table is not None
        known = {column.name: column for column in spoken.columns} if spoken else {}
        columns: list[list[Any]] = []
        for column in table.columns:
            if table.key == (column.name,):
                columns.append([column.name, "key"])
            elif column.name in table.links:
                columns.append([column.name, "ref", table.links[column.name], column.nullable])
            elif placed is not None and column.name in known:
                columns.append(placed.spec(known[column.name]))
            elif column.name in known:
                columns.append(spec(known[column.name], draw, self.rows(name), held_out=False))
            else:
                columns.append(_unspoken(column))
        return {"table": name, "rows": self.rows(name), "columns": columns}

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Those beside the keys, each also as a statement writes it."""
        table = self.schema.table(name)
        assert table is not None
        keys = {*table.key, *table.links}
        return [(it.name, sql_name(it.name)) for it in table.columns if it.name not in keys]

    def statement(self, name: str, keep: frozenset[str] | None = None) -> str:
        """CREATE TABLE as SQLite executes it; with `keep`, of its keys and these columns."""
        table = self.schema.table(name)
        assert table is not None
        parts = []
        for column in table.columns:
            is_key = column.name in table.key or column.name in table.links
            if not (is_key or keep is None or column.name in keep):
                continue
            text = f"{sql_name(column.name)} {_type(column)}"
            if table.key == (column.name,):
                text += " PRIMARY KEY"
            elif column.name in table.links:
                parent = self.schema.table(table.links[column.name])
                assert parent is not None
                text += f" REFERENCES {sql_name(parent.name)}({sql_name(parent.key[0])})"
            parts.append(text)
        return f"CREATE TABLE {sql_name(name)} ({', '.join(parts)});"


def _role(column: str, parent: str, *, is_only: bool) -> str | None:
    """What the parent is called there, by the column's name: empty for the table's own nouns, None if
    nothing can be said."""
    words = words_of(column)
    words = words[:-1] if len(words) > 1 and words[-1] in _KEY_ENDINGS else words
    own = set(table_words(parent))
    if not words or (set(words) & own if is_only else set(words) <= own):
        return ""
    return None if words[-1] in _NOT_NOUNS else " ".join(words)


def _unspoken(column: ddl.Column) -> list[Any]:
    if column.kind in ("int", "real", "year"):
        return [column.name, "int", 1, 300, column.nullable]
    if column.kind in ("date", "datetime", "bool"):
        return [column.name, column.kind, column.nullable]
    return [column.name, "cat", ["a", "b", "c"], column.nullable]


def _type(column: ddl.Column) -> str:
    if column.kind == "text":
        short = column.type.upper()
        return short if short.startswith("VARCHAR(") and short[8:-1].isdigit() else "TEXT"
    if column.kind == "real":
        # Without what may follow, such as UNSIGNED.
        exact = _DECIMAL.match(column.type.upper())
        return exact[0] if exact else "REAL"
    return TYPES[column.kind]
