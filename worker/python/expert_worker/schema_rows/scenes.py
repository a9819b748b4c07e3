"""A few tables of the schema that belong together, for one row's questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql.scene import PARENT_ROWS, ROWS, Placed, Scene
from expert_worker.evaluate.authoring.sql.tables import Table as Spoken

from . import ddl
from .columns import PERSONS, spec, spoken_table, sql_name
from .vocabulary import Synonyms, table_words, words_of

MOST_TABLES = 3
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
        for table in schema.tables:
            found = spoken_table(table, synonyms)
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
        self._weights = [2 + min(len(self.spoken[name].columns), 5) for name in self.spoken]

    def _links(self, table: ddl.Table) -> list[Link]:
        key = table.key[0] if len(table.key) == 1 else ""
        return [
            Link(table.name, column, parent, self._role(column, parent))
            for column, parent in table.links.items()
            if parent != table.name and column != key and {table.name, parent} <= self.spoken.keys()
        ]

    def _role(self, column: str, parent: str) -> str:
        words = words_of(column)
        words = (
            words[:-1] if len(words) > 1 and words[-1] in ("id", "number", "code", "key", "ref") else words
        )
        return "" if set(words) & set(table_words(parent)) else " ".join(words)

    def scene(self, draw: Draw, *, held_out: bool) -> Scene:
        names = [draw.weighted(tuple(self.spoken), self._weights)]
        chosen: dict[str, Link] = {}
        while len(names) < MOST_TABLES and draw.chance(FURTHER):
            near = [
                link
                for link in self.links
                if (link.child in names) != (link.parent in names)
                and not (link.child in names and link.child in chosen)
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
        roles = [it.role for it in chosen.values() if it.parent == name and it.role]
        noun = (
            roles[0]
            if len(roles) == 1
            else draw.weighted(spoken.nouns, (3, 2, *[1] * len(spoken.nouns))[: len(spoken.nouns)])
        )
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

    def statement(self, name: str, *, whole: bool = True, keep: frozenset[str] = frozenset()) -> str:
        """CREATE TABLE as SQLite executes it; not whole: the keys, and the columns to keep."""
        table = self.schema.table(name)
        assert table is not None
        parts = []
        for column in table.columns:
            if not (whole or column.name in keep or column.name in table.key or column.name in table.links):
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
        short = column.type.upper()
        plain = short.replace("(", "").replace(")", "").replace(",", "").isalnum() and "," in short
        return short if short.startswith("DECIMAL(") and plain else "REAL"
    return TYPES[column.kind]
