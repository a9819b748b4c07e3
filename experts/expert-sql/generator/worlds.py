"""The worlds that questions are asked about, read from worlds/*.txt.

A world is a line and the indented lines below it, one table each:

    shops,stores = shop, store : name!place; city_site; floor_area:area
     clerks = clerk, shop assistant > shops at, in : name!person; age

Left of `=` the names that the table may have, right of it what people call one row; behind `>` the table that it
refers to and the words that stand between them ("clerks at the shop Ashford"); then its columns (see columns.py).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from expert_worker.evaluate.authoring.sql.columns import parse
from expert_worker.evaluate.authoring.sql.tables import Table, World

HERE = Path(__file__).resolve().parent / "worlds"
FILES = {
    "train": ("train_a.txt", "train_b.txt"),
    "validation": ("validation.txt",),
    "test": ("test.txt",),
}


@cache
def worlds(split: str) -> list[World]:
    found: list[list[Table]] = []
    for name in FILES[split]:
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            if not line.startswith(" "):
                found.append([])
            found[-1].append(_table(line.strip()))
    return [tuple(tables) for tables in found]


def _table(line: str) -> Table:
    head, body = line.split(" : ", 1)
    names, _, called = head.partition(" = ")
    nouns, _, link = called.partition(" > ")
    parent, _, preps = link.partition(" ")
    return Table(
        tuple(names.split(",")),
        tuple(noun.strip() for noun in nouns.split(",")),
        parent,
        tuple(prep.strip() for prep in preps.split(",") if prep.strip()),
        tuple(parse(part.strip()) for part in body.split(";") if part.strip()),
    )
