"""The worlds that JSON is made about, read from `worlds/*.txt`; those of validation and test are not training's.

One world per paragraph: the thing in singular and plural, its fields, and sentences about it. A field is its key, after
slashes other names of the same fact, and the kind of its values: `int:1-90` a number, `dec:1-9` a decimal, `money:5-90` a
price, `a|b|c` one of few words, `list:a|b|c` some of them, `bool:yes in words/no in words`, `code:INV-4` a code with four
digits, `hex:7`, and the names in `values.py` (person, city, date, ...).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .pools import pools
from .values import Pools, draw_value, type_of

FOLDER = Path(__file__).resolve().parent / "worlds"
FILES = {
    "train": ("train_people", "train_business", "train_tech", "train_places", "train_nature"),
    "validation": ("validation",),
    "test": ("test",),
}


@dataclass(frozen=True)
class Field:
    names: tuple[str, ...]
    kind: str

    @property
    def type(self) -> str:
        return type_of(self.kind)


Record = dict[Field, Any]


@dataclass(frozen=True)
class World:
    noun: str
    nouns: str
    fields: tuple[Field, ...]
    sentences: tuple[str, ...]
    pools: Pools

    def some(self, draw: Draw, count: int, types: tuple[str, ...] = ()) -> list[Field]:
        """`count` fields in a random order, of these types if any are given."""
        return draw.some([field for field in self.fields if not types or field.type in types], count)

    def record(self, draw: Draw, fields: list[Field]) -> Record:
        return {field: draw_value(field.kind, draw, self.pools) for field in fields}

    def said_in(self, sentence: str) -> list[Field]:
        named = re.findall(r"\{(\w+)\}", sentence)
        return [field for name in named for field in self.fields if field.names[0] == name]


@cache
def worlds(split: str) -> tuple[World, ...]:
    text = "\n\n".join((FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip() for name in FILES[split])
    return tuple(_world(part, pools(split)) for part in text.split("\n\n"))


def _world(paragraph: str, names: Pools) -> World:
    head, fields, *sentences = paragraph.splitlines()
    noun, _, nouns = head.partition("/")
    read = []
    for field in fields.split("; "):
        keys, _, kind = field.partition(" ")
        read.append(Field(tuple(keys.split("/")), kind))
    return World(
        noun,
        nouns,
        tuple(read),
        tuple(line.removeprefix("> ").replace("\\n", "\n") for line in sentences),
        names,
    )


CASES = ("snake", "camel")


def cased(name: str, case: str) -> str:
    first, *rest = name.split("_")
    return name if case == "snake" else first + "".join(word.capitalize() for word in rest)


def keys_for(fields: list[Field], draw: Draw, case: str = "") -> dict[Field, str]:
    """A key for each field, all in one case: mostly the first of its names."""
    case = case or draw.weighted(CASES, (7, 3))
    taken: dict[Field, str] = {}
    for field in fields:
        name = field.names[0] if draw.chance(0.45) else draw.one(field.names)
        key = cased(name, case)
        taken[field] = key if key not in taken.values() else cased(field.names[0], case)
    return taken


def words_of(key: str) -> str:
    """`due_date` and `dueDate` as `due date`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r" \1", key).replace("_", " ").lower()
