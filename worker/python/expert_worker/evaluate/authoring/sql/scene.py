"""One question's stage: a world's tables with a few columns each, named in one style."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from . import pools
from .columns import Column
from .tables import Table, World

ROWS, PARENT_ROWS = 24, 10
# How often a column goes by its own name where people have other words for it, too.
LITERAL = 0.5
# How often a column that a world does not call so has missing values, and how often a key to another table.
EMPTY, LOOSE = 0.14, 0.15
# How often a table refers to one more table of the scene.
SECOND = 0.4
SPOKEN = ("nouns", "highest", "lowest", "more", "less", "ask", "after")
_RESERVED_TEXT = """
add all and as between by case check collate column commit constraint create cross default delete desc
distinct drop else escape except exists foreign from group having in index insert into intersect is
isnull join left limit natural not notnull null on or order outer primary references returning select
set table then to transaction union unique update using values when where
"""
RESERVED = frozenset(_RESERVED_TEXT.split())
TEXTS = {
    "email": [f"{name.lower()}@mail.example" for name in pools.FIRST[0].split()],
    "phone": [f"555-{number}" for number in range(1000, 1030)],
    "notes": ["call back", "see file", "ask Tom", "urgent", "checked twice", "no answer"],
    "website": [f"www.{name.lower()}.example" for name in pools.PLACES[0].split()],
}


@dataclass(frozen=True)
class Placed:
    """A table of the question. `noun` is what it is called there; `ref` its column that names the parent's row."""

    table: Table
    name: str
    sql: str
    noun: str
    key: str
    key_sql: str
    columns: tuple[Column, ...]
    specs: tuple[list[Any], ...]
    rows: int
    ref: str = ""
    ref_sql: str = ""
    prep: str = ""
    # Whether some rows refer to no row of the parent.
    loose: bool = False
    # A column that refers to another table of the scene, which no question goes through, and that table's name.
    second: str = ""
    second_of: str = ""
    second_first: bool = False

    @property
    def shown(self) -> list[Column]:
        """The columns that say which row is meant: a name, or first and last name; none for some tables."""
        count = 2 if self.columns[0].names[0] == "first_name" else 1
        return list(self.columns[:count]) if _says_which(self.columns[0]) else []

    @property
    def others(self) -> list[Column]:
        return list(self.columns[len(self.shown) :])

    @property
    def who(self) -> str:
        return "who" if self.table.is_person else "that"

    def of_kind(self, *kinds: str) -> list[Column]:
        return [column for column in self.others if column.kind in kinds]

    def spec(self, column: Column) -> list[Any]:
        return self.specs[[other.name for other in self.columns].index(column.name)]


@dataclass(frozen=True)
class Scene:
    tables: tuple[Placed, ...]
    style: str
    draw: Draw
    held_out: bool
    # Whether the statements have every name in quotes; the answers then, too.
    quoted: bool = False

    def one(self) -> Placed:
        return self.draw.one(self.tables)

    def pairs(self) -> list[tuple[Placed, Placed]]:
        """Parents with a table that refers to them."""
        by_name = {placed.table.names[0]: placed for placed in self.tables}
        return [
            (by_name[child.table.parent], child) for child in self.tables if child.table.parent in by_name
        ]


def stage(world: World, draw: Draw, held_out: bool) -> Scene:
    style = draw.weighted(("snake", "pascal", "camel", "upper", "spaced"), (64, 20, 5, 4, 7))
    quoted = draw.chance(0.75 if style == "spaced" else 0.05)
    plural_names = draw.chance(0.68)
    key = draw.weighted(("id", "{noun}_id", "{noun}_no"), (46, 49, 5))
    placed: dict[str, Placed] = {}
    parents = {table.parent for table in world}
    for table in world:
        found = _placed(table, draw, style, plural_names, key, held_out, table.names[0] in parents, quoted)
        if table.parent in placed:
            found = _referring(found, placed[table.parent], draw, style, key, quoted)
        others = [other for name, other in placed.items() if name != table.parent]
        if others and draw.chance(SECOND):
            found = _also_referring(found, draw.one(others), draw, style, key)
        placed[table.names[0]] = found
    return Scene(tuple(placed.values()), style, draw, held_out, quoted)


def styled(snake: str, style: str) -> str:
    words = snake.split("_")
    if style == "snake":
        return snake
    if style == "upper":
        return snake.upper()
    if style == "spaced":
        return " ".join(word.capitalize() for word in words)
    text = "".join(word if word == "id" else word.capitalize() for word in words)
    text = f"{text[:-2]}Id" if words[-1] == "id" else text
    return text if style == "pascal" else text[:1].lower() + text[1:]


def written(name: str, *, quoted: bool = False) -> str:
    """As a statement writes it: quoted where it must be, or where the tables have all their names in quotes."""
    if quoted:
        return f'"{name}"'
    plain = name.replace("_", "a").isalnum() and not name[0].isdigit() and name.isascii()
    return name if plain and name.lower() not in RESERVED else f'"{name}"'


def _placed(
    table: Table,
    draw: Draw,
    style: str,
    plural_names: bool,
    key: str,
    held_out: bool,
    is_parent: bool,
    quoted: bool,
) -> Placed:
    noun = _called(table, draw)
    snake = draw.one(table.names) if plural_names else table.nouns[0].replace(" ", "_").replace("-", "_")
    if draw.chance(LITERAL):
        noun = next((word for word in table.nouns if word.replace(" ", "_") in snake), noun)
    name = styled(snake.lower(), style)
    one = table.nouns[0].split(" ")[-1].replace("-", "_").lower()
    key_name = styled(key.format(noun=one), style)
    rows = PARENT_ROWS if is_parent else ROWS
    taken = {key_name.lower(), name.lower()}
    called: set[str] = set()
    columns, specs = [], []
    for given in _cut(table, draw):
        labels = [label.format(noun=one) for label in given.names]
        free = [label for label in labels if styled(label, style).lower() not in taken]
        if not free:
            continue
        label = free[0] if draw.chance(0.4) else draw.one(free)
        chosen = styled(label, style)
        taken.add(chosen.lower())
        alike = tuple(noun for noun in given.nouns if noun.replace(" ", "_") in label)
        nouns = alike if alike and draw.chance(LITERAL) else given.nouns
        # A word that could mean two columns of the table means the first one only.
        column = _without(replace(given, nouns=nouns), called)
        if not column.nouns:
            continue
        called.update(*(getattr(column, field) for field in SPOKEN))
        kept = replace(column, name=chosen, sql=written(chosen, quoted=quoted))
        if kept.kind in ("number", "cat", "date") and not kept.countable and draw.chance(EMPTY):
            kept = replace(kept, nullable=True)
        columns.append(kept)
        specs.append(_spec(kept, draw, rows, held_out))
    return Placed(
        table,
        name,
        written(name, quoted=quoted),
        noun,
        key_name,
        written(key_name, quoted=quoted),
        tuple(columns),
        tuple(specs),
        rows,
    )


def _without(column: Column, called: set[str]) -> Column:
    left = {field: tuple(word for word in getattr(column, field) if word not in called) for field in SPOKEN}
    return replace(column, **left)  # type: ignore[arg-type]


def _called(table: Table, draw: Draw) -> str:
    """What people call one row; now and then by what its name says it is."""
    first = table.columns[0]
    if _says_which(first) and first.pool == "firm" and draw.chance(0.25):
        return "company"
    return draw.weighted(table.nouns, [3, 2, 1, 1][: len(table.nouns)])


def _referring(child: Placed, parent: Placed, draw: Draw, style: str, key: str, quoted: bool) -> Placed:
    ref = _ref_name(parent, style, key)
    if any(column.name.lower() == ref.lower() for column in child.columns):
        ref = styled(f"{_one_word(parent)}_ref", style)
    loose = draw.chance(LOOSE)
    prep = draw.one(child.table.preps)
    return replace(child, ref=ref, ref_sql=written(ref, quoted=quoted), prep=prep, loose=loose)


def _also_referring(child: Placed, other: Placed, draw: Draw, style: str, key: str) -> Placed:
    """With a second key, so that the one to join by has to be chosen."""
    name = _ref_name(other, style, key)
    taken = {child.name, child.key, child.ref, *(column.name for column in child.columns)}
    if name.lower() in {one.lower() for one in taken}:
        return child
    return replace(child, second=name, second_of=other.name, second_first=draw.chance(0.5))


def _ref_name(parent: Placed, style: str, key: str) -> str:
    one = _one_word(parent)
    return styled(f"{one}_no" if key.endswith("_no") else f"{one}_id", style)


def _one_word(parent: Placed) -> str:
    return parent.table.nouns[0].split(" ")[-1].replace("-", "_").lower()


def _cut(table: Table, draw: Draw) -> list[Column]:
    """The naming columns and most of the others, in the world's order."""
    first = table.columns[0]
    held = 0 if not _says_which(first) else 2 if first.names[0] == "first_name" else 1
    others = list(table.columns[held:])
    while len(others) > 3 and draw.chance(0.6):
        others.pop(draw.below(len(others)))
    return [*table.columns[:held], *others]


def _says_which(column: Column) -> bool:
    return column.kind == "name"


def _spec(column: Column, draw: Draw, rows: int, held_out: bool) -> list[Any]:
    name, nullable = column.name, column.nullable
    if column.kind == "name":
        return [name, "name", pools.pool(column.pool, held_out, draw)]
    if column.kind == "text":
        return [name, "cat", TEXTS[column.pool], nullable]
    if column.kind == "cat":
        words: list[Any] = list(column.values) or pools.pool(column.pool, held_out, draw)
        words = words if all(str(word).isdigit() for word in words) else draw.some(words, draw.between(4, 5))
        return [name, "cat", [int(word) if str(word).isdigit() else word for word in words], nullable]
    if column.kind in ("date", "bool"):
        return [name, column.kind, nullable]
    return _number_spec(column, rows)


def _number_spec(column: Column, rows: int) -> list[Any]:
    low, high, step = column.low, column.high, column.step
    if (high - low) / step + 1 < rows + 2:
        return [column.name, "cat", list(range(int(low), int(high) + 1)), column.nullable]
    if step == 1 and high - low <= 300:
        return [column.name, "int", int(low), int(high), column.nullable]
    step = int(step) if step == int(step) else step
    if column.high > 1000 and not column.is_year:
        step = 10 if column.high - column.low > 600 else step
    return [column.name, "number", low, high, step, column.nullable]
