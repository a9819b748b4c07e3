"""A table that questions are about, as people speak of it."""

from __future__ import annotations

from dataclasses import dataclass

from .columns import Column


@dataclass(frozen=True)
class Table:
    names: tuple[str, ...]
    nouns: tuple[str, ...]
    parent: str
    preps: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def is_person(self) -> bool:
        first = self.columns[0]
        return first.kind == "name" and not first.after and first.pool in ("person", "first")


World = tuple[Table, ...]
