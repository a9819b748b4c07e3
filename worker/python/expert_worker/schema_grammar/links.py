"""Which columns a join of two tables compares: foreign keys, declared or recognised by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from expert_worker.schema_rows.clauses import matching

from .ddl_names import Name, NamedTable

_KEY = re.compile(r"(?:[_ ]?(?:id|no|nr|num|number|code|key|ref|fk)|^id)$", re.I)


@dataclass(frozen=True)
class Link:
    """`column` of `table` has a value of `other_column` of `other`. Numbers of tables."""

    table: int
    column: Name
    other: int
    other_column: Name


def links(tables: Sequence[NamedTable]) -> list[Link] | None:
    """None where some table has none that can be recognised: it might be joined in any way."""
    found = [*_declared(tables), *_named(tables)]
    linked = {it.table for it in found} | {it.other for it in found}
    return found if len(tables) > 1 and len(linked) == len(tables) else None


def _declared(tables: Sequence[NamedTable]) -> Iterator[Link]:
    numbers = {table.path: number for number, table in enumerate(tables)}
    for number, table in enumerate(tables):
        for column, other, target in table.references:
            found = matching(other, numbers)
            if found is None:
                continue
            place, own = numbers[found], table.column(column)
            to = tables[place].column(target) if target else tables[place].columns[0]
            if own and to:
                yield Link(number, own, place, to)


def _named(tables: Sequence[NamedTable]) -> Iterator[Link]:
    """`client_id` in a table and in `clients`, or there as `id`; and keys of the same name in both."""
    for (first, one), (second, other) in permutations(enumerate(tables), 2):
        for column in one.columns:
            stem = _stem(column.text)
            same = other.column(column.text)
            if same and stem and _KEY.search(column.text):
                yield Link(first, column, second, same)
            if stem and _fits(stem, other.name.text):
                for key in other.columns:
                    if key is not same and (not _stem(key.text) or _fits(_stem(key.text), other.name.text)):
                        yield Link(first, column, second, key)


def _stem(column: str) -> str:
    """What a key is of: `clientId` is of a client, and `id` says nothing."""
    return _plain(_KEY.sub("", column))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold()


def _fits(stem: str, table: str) -> bool:
    """`client` and `clients`, `city` and `cities`, `shelf` and `shelves`, `owner` and nothing else."""
    name = _plain(table)
    plural = name.startswith(stem) or (name.startswith(stem[:-1]) and name[len(stem) - 1 :][:1] in ("i", "v"))
    return len(stem) > 2 and (plural or name.endswith(stem)) and abs(len(name) - len(stem)) < 4
