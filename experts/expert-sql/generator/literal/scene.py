"""One question's stage: a world cut down to a few columns, and the words to speak of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .domains import Column, Table, World

ALIASED = 0.25


@dataclass(frozen=True)
class Question:
    """`weaker` are queries that a careless reader would write; on at least one database each returns other rows than `sql`."""

    text: str
    sql: str
    level: int
    tags: tuple[str, ...]
    tables: tuple[str, ...]
    weaker: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    parent: Table
    child: Table
    draw: Draw

    @property
    def ref(self) -> str:
        """The child's column that names its parent."""
        return f"{self.parent.noun}_id"

    @property
    def join(self) -> str:
        return f"{self.parent.name} JOIN {self.child.name} ON {self.parent.name}.id = {self.child.name}.{self.ref}"

    def table(self) -> Table:
        return self.child if self.draw.chance(0.65) else self.parent

    def schema(self, tables: tuple[str, ...]) -> list[dict[str, Any]]:
        return [self._described(table) for table in (self.parent, self.child) if table.name in tables]

    def _described(self, table: Table) -> dict[str, Any]:
        columns: list[list[Any]] = [["id", "key"]]
        if table.parent:
            columns.append([self.ref, "ref", self.parent.name])
        columns += [column.spec for column in table.columns]
        return {"table": table.name, "rows": 24 if table.parent else 9, "columns": columns}


def stage(world: World, draw: Draw) -> Scene:
    return Scene(_cut(world.parent, draw), _cut(world.child, draw), draw)


def _cut(table: Table, draw: Draw) -> Table:
    """Three or four of the table's columns in a new order; a number always stays."""
    columns = draw.shuffled(table.columns)
    for _ in range(len(columns) - draw.between(3, 4)):
        columns.remove(next(column for column in columns if column.kind != "int" or column.nullable))
    return Table(table.name, table.noun, table.parent, tuple(_called(column, draw) for column in columns))


def _called(column: Column, draw: Draw) -> Column:
    """Most people call a column by its name, some by another word where it has one."""
    return column if draw.chance(ALIASED) else replace(column, phrase=column.name)


def people_call(table: Table) -> str:
    return table.name.replace("_", " ")


def pick(table: Table, draw: Draw, *kinds: str, solid: bool = False) -> Column | None:
    """A column of one of these kinds; `solid` ones are never NULL."""
    found = [column for column in table.of_kind(*kinds) if not (solid and column.nullable)]
    return draw.one(found) if found else None
