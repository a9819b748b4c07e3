"""Whether an answer is worth learning: what it returns on generated databases, under the scorer's limits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from expert_worker.evaluate.scorers.sql import DATABASES, guard, is_ordered, same
from expert_worker.evaluate.scorers.sql_data import contents, filled

from .question import Question


class Databases:
    """A row's databases, each with its rows in one order and in the opposite one."""

    def __init__(self, schema: list[dict[str, Any]], ddl: str, seed: str) -> None:
        self.tables = [str(table["table"]) for table in schema]
        self._schema, self._ddl, self._seed = schema, ddl, seed
        self._pairs: list[tuple[sqlite3.Connection, sqlite3.Connection]] = []

    def __iter__(self) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        for place in range(DATABASES):
            if place == len(self._pairs):
                rows = contents(self._schema, f"{self._seed}/{place}")
                forth = filled(self._schema, rows, statements=self._ddl)
                back = filled(self._schema, rows, statements=self._ddl, reverse=True)
                self._pairs.append((forth, back))
            yield self._pairs[place]


def proven(data: Databases, question: Question) -> bool:
    """Whether the answer says something on every database, depends on no hidden order, and is not a careless one's."""
    in_order = is_ordered(question.sql)
    told_apart = [False] * len(question.weaker)
    for forth, back in data:
        result = _result(forth, question.sql)
        if not _is_informative(result) or not same(result, _result(back, question.sql), in_order):
            return False
        if any(same(result, _result(forth, f'SELECT * FROM "{table}"'), False) for table in data.tables):
            return False
        for place, weaker in enumerate(question.weaker):
            told_apart[place] |= not same(result, _result(forth, weaker), in_order)
    return all(told_apart)


def _result(connection: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    guard(connection)
    return connection.execute(sql).fetchall()


def _is_informative(result: list[tuple[Any, ...]]) -> bool:
    return any(value not in (None, 0) for line in result for value in line)
