"""SQL is judged by what it returns: the same rows as the reference on three generated databases.

An answer is hostile until proven otherwise: an authorizer lets it read and nothing else, a progress handler
counts its steps, and the engine's own limits bound the length of the statement and of every value.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from expert_worker.evaluate import answer as answers
from expert_worker.evaluate.scorers.sort_order import (
    Expected,
    by_storage,
    identity,
    number,
    of_reference,
    same_rows,
)
from expert_worker.evaluate.scorers.sql_data import build, contents, filled
from expert_worker.evaluate.scorers.sql_order import has_order, order_of
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, check_fields, unparsed, wrong

DATABASES = 3
# One is filled in the opposite order and another one read so, that an answer which loses ORDER BY is not
# right by luck. Filling does not change the order of a table with an INTEGER PRIMARY KEY.
REVERSED = DATABASES - 1
READ_BACKWARDS = DATABASES - 2
MAX_LENGTH = 4_000
MAX_ROWS = 5_000
MAX_STEPS = 400
STEP = 10_000
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zeroblob", "randomblob"}
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MAX_LENGTH,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
# What SQLite's tokenizer and parser say; they have no error code that other errors lack.
_SYNTAX = re.compile(
    r"syntax error|incomplete input|unrecognized token|one statement at a time|clause should come"
    r"|parser stack overflow"
)
# What a statement may raise, whoever wrote it.
_ERRORS = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, MemoryError)
# Without any of these, a statement returns the same rows whatever their order is.
_MAY_CHOOSE = re.compile(r"\(|\bLIMIT\b|\bGROUP\b", re.IGNORECASE)
Result = list[tuple[Any, ...]]


class SqlScorer:
    def extract(self, text: str) -> str:
        return answers.statement(text, answers.SQL, _is_prose)

    def judge(self, row: Row, answer: str) -> Verdict:
        return self._judge(row, answer, DATABASES)

    def judge_reference(self, row: Row) -> Verdict:
        """On one database: what it cannot run on one, it can run on none. It may return nothing."""
        gold = self.extract(str(row["completion"]))
        verdict = of_reference(self._judge(row, gold, 1), _results(row, gold), "databases")
        return by_storage(verdict, lambda: _depends_on_storage(row, gold))

    def _judge(self, row: Row, answer: str, databases: int) -> Verdict:
        gold = self.extract(str(row["completion"]))
        if not gold:
            raise BadRow("there is no query in the reference answer")
        if not answer:
            return unparsed("no SQL in the answer")
        if len(answer) > MAX_LENGTH:
            return wrong(f"{len(answer)} characters are too long for a query")
        for place in range(databases):
            # Nothing that a query may do changes the database, so one serves both.
            with closing(_database(row, place)) as connection:
                try:
                    expected = _expected(connection, gold)
                except _ERRORS as error:
                    raise BadRow(f"the reference answer: SQLite: {error}") from None
                if place == READ_BACKWARDS:
                    _read_backwards(connection, gold, expected)
                try:
                    found = _rows(connection, answer)
                except _ERRORS as error:
                    verdict = unparsed if _SYNTAX.search(str(error)) else wrong
                    return verdict(f"SQLite: {error}")
            difference = expected.difference(found)
            if difference:
                return wrong(difference)
            # SQLite groups by sorting: without ORDER BY too, groups come in the order of their keys.
            if len(expected.groups) > 1 and not has_order(answer):
                return wrong("no ORDER BY: SQLite returned the rows in this order by chance")
        return RIGHT

    def result_key(self, row: Row, answer: str) -> object:
        """Its rows on all databases; their order counts where the answer has one."""
        if not answer or len(answer) > MAX_LENGTH:
            return None
        in_order = is_ordered(answer)
        try:
            found = list(_results(row, answer))
        except _ERRORS:
            return None
        return [identity(rows, in_order, _shown) for rows in found]


def _read_backwards(connection: sqlite3.Connection, gold: str, expected: Expected) -> None:
    """Unless the reference returns other rows so: then the answer may, too."""
    _reverse(connection, on=True)
    try:
        is_same = expected.difference(_rows(connection, gold)) is None
    except _ERRORS:
        is_same = False
    if not is_same:
        _reverse(connection, on=False)


def _reverse(connection: sqlite3.Connection, *, on: bool) -> None:
    connection.set_authorizer(None)
    connection.execute(f"PRAGMA reverse_unordered_selects = {'ON' if on else 'OFF'}")


def _results(row: Row, statement: str) -> Iterator[Result]:
    """What it returns on each database."""
    return (query(_database(row, place), statement) for place in range(DATABASES))


def _depends_on_storage(row: Row, statement: str) -> bool:
    """Whether it returns other rows of the first database where that is filled or read backwards: filling
    does not change the order of a table with an INTEGER PRIMARY KEY."""
    if _MAY_CHOOSE.search(statement) is None:
        return False
    schema, statements = row["schema"], row.get("ddl")
    content = contents(schema, f"{row['seed']}/0")
    with (
        closing(filled(schema, content, statements=statements)) as forwards,
        closing(filled(schema, content, reverse=True, statements=statements)) as backwards,
    ):
        try:
            expected = _expected(forwards, statement)
            _reverse(forwards, on=True)
            found = [_rows(connection, statement) for connection in (forwards, backwards)]
        except _ERRORS:
            return False
    return any(expected.difference(rows) is not None for rows in found)


def _is_prose(statement: str) -> bool:
    """Whether SQLite's parser refuses it. Tables do not matter for that, and nothing is run."""
    with closing(sqlite3.connect(":memory:")) as connection:
        guard(connection)
        try:
            connection.execute(f"EXPLAIN {statement}")
        except _ERRORS as error:
            return _SYNTAX.search(str(error)) is not None
    return False


def _expected(connection: sqlite3.Connection, statement: str) -> Expected:
    def ask(other: str) -> Result | None:
        try:
            return _rows(connection, other)
        except _ERRORS:
            return None

    return Expected.of(_rows(connection, statement), order_of(statement), ask, _shown)


def database(row: Row, seed: str, *, reverse: bool = False) -> sqlite3.Connection:
    return build(row["schema"], seed, reverse=reverse, statements=row.get("ddl"))


def _database(row: Row, place: int) -> sqlite3.Connection:
    check_fields(row, "seed", "schema")
    try:
        return database(row, f"{row['seed']}/{place}", reverse=place == REVERSED)
    except Exception as error:
        # A row may hold anything.
        raise BadRow(f"its database cannot be built: {type(error).__name__}: {error}") from None


def query(connection: sqlite3.Connection, statement: str) -> Result:
    """The rows of one statement under every limit; closes the connection."""
    with closing(connection):
        return _rows(connection, statement)


def _rows(connection: sqlite3.Connection, statement: str) -> Result:
    guard(connection)
    rows = connection.execute(statement).fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise sqlite3.OperationalError(f"more than {MAX_ROWS} rows")
    return rows


def guard(connection: sqlite3.Connection) -> None:
    for limit, value in LIMITS.items():
        connection.setlimit(limit, value)
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(_countdown(), STEP)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in READS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or first or "").lower() not in FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _countdown() -> Callable[[], int]:
    left = MAX_STEPS

    def tick() -> int:
        nonlocal left
        left -= 1
        return 1 if left < 0 else 0

    return tick


def is_ordered(statement: str) -> bool:
    """Whether the statement as a whole is ordered; an ORDER BY inside parentheses orders only a part."""
    return order_of(statement) is not None


def same(expected: Result, found: Result, in_order: bool) -> bool:
    """Equal rows; numbers with a fraction are equal to nine digits."""
    return same_rows(expected, found, in_order, _shown)


def _plain(value: Any) -> Any:
    return number(value) if isinstance(value, int | float) else value


def _shown(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(_plain, row))
