"""CREATE TABLE statements as people write them: types, keys, layout, a comment now and then."""

from __future__ import annotations

import re
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.sql.columns import Column
from expert_worker.evaluate.authoring.sql.scene import Placed, Scene, written

MONEY = {
    "price",
    "salary",
    "amount",
    "fee",
    "rent",
    "balance",
    "cost",
    "budget",
    "revenue",
    "damage",
    "profit",
}
TYPES = {
    "short": {"int": "INT", "money": "REAL", "text": "TEXT", "date": "DATE", "bool": "BOOLEAN"},
    "sqlite": {"int": "INTEGER", "money": "REAL", "text": "TEXT", "date": "TEXT", "bool": "INTEGER"},
    "ansi": {
        "int": "INTEGER",
        "money": "DECIMAL(10,2)",
        "text": "VARCHAR({n})",
        "date": "DATE",
        "bool": "BOOLEAN",
    },
    "mysql": {
        "int": "int",
        "money": "decimal(10,2)",
        "text": "varchar({n})",
        "date": "date",
        "bool": "tinyint(1)",
    },
}

KEYWORDS = re.compile(
    r"\b(CREATE TABLE|PRIMARY KEY|FOREIGN KEY|REFERENCES|NOT NULL|INTEGER|INT|TEXT|REAL|BOOLEAN|VARCHAR|DECIMAL)\b"
)


def statements(scene: Scene, tables: tuple[Placed, ...]) -> str:
    """The statements of these tables, in one manner."""
    draw = scene.draw
    manner = _Manner(scene, tables, draw)
    return "\n".join(manner.create(table) for table in tables)


class _Manner:
    def __init__(self, scene: Scene, tables: tuple[Placed, ...], draw: Draw) -> None:
        self.draw = draw
        self.tables = tables
        self.types = TYPES[draw.weighted(tuple(TYPES), (32, 30, 28, 10))]
        self.lower = scene.style != "upper" and draw.chance(0.1)
        self.spread = draw.chance(0.4)
        self.keyed = draw.weighted(("inline", "end", "none"), (70, 10, 20))
        self.linked = draw.weighted(("inline", "end", "none"), (45, 13, 42))
        self.not_null = draw.chance(0.22)
        self.quoted = scene.quoted
        self.commented = draw.chance(0.07)
        self.listed = draw.chance(0.04)
        self.parents = {child.table.names[0]: parent for parent, child in scene.pairs() if parent in tables}

    def create(self, table: Placed) -> str:
        integer = self.types["int"]
        key = f"{self.name(table.key)} {integer}" + (" PRIMARY KEY" if self.keyed == "inline" else "")
        lines = [(key, "")]
        parent = self.parents.get(table.table.names[0])
        if table.ref:
            link = f" REFERENCES {self.name(parent.name)}({self.name(parent.key)})" if parent else ""
            text = f"{self.name(table.ref)} {integer}" + ("" if table.loose else self.required())
            lines.append((text + (link if self.linked == "inline" else ""), ""))
        if table.second:
            lines.insert(1 if table.second_first else len(lines), (self.second(table), ""))
        for column, spec in zip(table.columns, table.specs, strict=True):
            lines.append((self.column(column, spec), self.comment(column, spec)))
        if self.keyed == "end":
            lines.append((f"PRIMARY KEY ({self.name(table.key)})", ""))
        if parent and self.linked == "end":
            lines.append(
                (
                    f"FOREIGN KEY ({self.name(table.ref)}) REFERENCES {self.name(parent.name)}({self.name(parent.key)})",
                    "",
                )
            )
        head = f"CREATE TABLE {self.name(table.name)} ("
        if self.spread or any(comment for _, comment in lines):
            body = "\n".join(
                f"  {text}{',' if place < len(lines) - 1 else ''}{comment}"
                for place, (text, comment) in enumerate(lines)
            )
            text = f"{head}\n{body}\n);"
        else:
            text = f"{head}{', '.join(text for text, _ in lines)});"
        return _lowered(text) if self.lower else text

    def second(self, table: Placed) -> str:
        other = next(one for one in self.tables if one.name == table.second_of)
        text = f"{self.name(table.second)} {self.types['int']}" + self.required()
        link = f" REFERENCES {self.name(other.name)}({self.name(other.key)})"
        return text + (link if self.linked == "inline" else "")

    def name(self, name: str) -> str:
        return written(name, quoted=self.quoted)

    def required(self) -> str:
        return " NOT NULL" if self.not_null and self.draw.chance(0.6) else ""

    def column(self, column: Column, spec: list[Any]) -> str:
        text = f"{self.name(column.name)} {self.type(column, spec)}"
        return text if column.nullable else text + self.required()

    def type(self, column: Column, spec: list[Any]) -> str:
        if column.kind == "bool":
            return self.types["bool"]
        if column.kind == "date":
            return self.types["date"]
        if column.kind == "number":
            return self.types["money" if column.measure in MONEY or column.step < 1 else "int"]
        if spec[1] == "cat" and isinstance(spec[2][0], int):
            return self.types["int"]
        return self.types["text"].format(n=self.draw.one((20, 50, 100, 255)))

    def comment(self, column: Column, spec: list[Any]) -> str:
        if column.kind == "cat" and self.listed and isinstance(spec[2][0], str) and len(spec[2]) < 6:
            return f" -- {', '.join(spec[2])}"
        if column.units and self.commented:
            return f" -- {self.draw.one(('in ', ''))}{column.units[0]}"
        return ""


def _lowered(text: str) -> str:
    return KEYWORDS.sub(lambda found: found[0].lower(), text)
