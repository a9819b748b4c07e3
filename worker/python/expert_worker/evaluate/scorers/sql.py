"""SQL is judged by what it returns: the same rows as the reference on three generated databases.

An answer is hostile until proven otherwise: an authorizer lets it read and nothing else, a progress handler
counts its steps, and the engine's own limits bound the length of the statement and of every value.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from expert_worker.evaluate import answer as answers
from expert_worker.evaluate.scorers.sql_data import build
from expert_worker.evaluate.scorers.sql_order import Order, order_of
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, check_fields, unparsed, wrong

DATABASES = 3
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
Result = list[tuple[Any, ...]]


class SqlScorer:
    def extract(self, text: str) -> str:
        return answers.statement(text, answers.SQL)

    def judge(self, row: Row, answer: str) -> Verdict:
        return self._judge(row, answer, DATABASES)

    def judge_reference(self, row: Row) -> Verdict:
        """On one database: what it cannot run on one, it can run on none."""
        return self._judge(row, self.extract(str(row["completion"])), 1)

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
                    expected = Expected.of(connection, gold)
                except _ERRORS as error:
                    raise BadRow(f"the reference answer: SQLite: {error}") from None
                try:
                    found = _rows(connection, answer)
                except _ERRORS as error:
                    verdict = unparsed if _SYNTAX.search(str(error)) else wrong
                    return verdict(f"SQLite: {error}")
            difference = expected.difference(found)
            if difference:
                return wrong(difference)
        return RIGHT

    def result_key(self, row: Row, answer: str) -> object:
        """Its rows on all databases; their order counts where the answer has one."""
        if not answer or len(answer) > MAX_LENGTH:
            return None
        in_order = is_ordered(answer)
        try:
            found = [query(_database(row, place), answer) for place in range(DATABASES)]
        except _ERRORS:
            return None
        return [_identity(rows, in_order) for rows in found]


def database(row: Row, seed: str) -> sqlite3.Connection:
    return build(row["schema"], seed, statements=row.get("ddl"))


def _database(row: Row, place: int) -> sqlite3.Connection:
    check_fields(row, "seed", "schema")
    try:
        return database(row, f"{row['seed']}/{place}")
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
    """Equal rows; columns go by place, their names do not matter, numbers are equal to nine digits."""
    left, right = ([tuple(map(_plain, row)) for row in rows] for rows in (expected, found))
    return left == right if in_order else Counter(left) == Counter(right)


def _identity(rows: Result, in_order: bool) -> tuple[bool, list[str]]:
    """Equal for equal rows. Of one row or none, the order says nothing."""
    shown = [repr(tuple(map(_plain, row))) for row in rows]
    counts = in_order and len(shown) > 1
    return counts, shown if counts else sorted(shown)


def _plain(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, int | float) else value


@dataclass(frozen=True)
class Expected:
    """What the reference returns. Rows with equal sort keys may stand in any order, and of such rows a limit
    may keep any.
    """

    rows: Result
    in_order: bool = False
    # Of an ordered reference: the places of each group of equal keys, and every row that may stand there.
    groups: tuple[tuple[range, Result], ...] = ()

    @classmethod
    def of(cls, connection: sqlite3.Connection, statement: str) -> Expected:
        rows, order = _rows(connection, statement), order_of(statement)
        if order is None:
            return cls(rows)
        return cls(rows, True, _groups(connection, order, rows) or tuple(_alone(rows)))

    def difference(self, found: Result) -> str | None:
        """None where the rows are right."""
        if len(self.rows) != len(found):
            return f"{len(found)} rows instead of {len(self.rows)}"
        if found and len(self.rows[0]) != len(found[0]):
            return f"{len(found[0])} columns instead of {len(self.rows[0])}"
        if not self.in_order:
            return _first_other(self.rows, found)
        for places, allowed in self.groups:
            left = Counter(_shown(row) for row in allowed)
            for place in places:
                if not left[_shown(found[place])]:
                    return f"row {place + 1} is {found[place]} instead of {self.rows[place]}"
                left[_shown(found[place])] -= 1
        return None


def _first_other(expected: Result, found: Result) -> str | None:
    """Of as many rows, without an order."""
    wanted, given = Counter(map(_shown, expected)), Counter(map(_shown, found))
    if wanted == given:
        return None
    other = next(row for row in found if given[_shown(row)] > wanted[_shown(row)])
    missing = next(row for row in expected if wanted[_shown(row)] > given[_shown(row)])
    return f"the row {other} instead of {missing}"


def _alone(rows: Result) -> Iterator[tuple[range, Result]]:
    """Each row in its own place, where sort keys are not known."""
    return ((range(place, place + 1), [row]) for place, row in enumerate(rows))


def _groups(
    connection: sqlite3.Connection, order: Order, rows: Result
) -> tuple[tuple[range, Result], ...] | None:
    """None where the keys cannot be had: the rows then have one order."""
    if not rows or order.with_keys is None or order.skipped is None:
        return None
    try:
        found = _rows(connection, order.with_keys)
    except _ERRORS:
        return None
    width, first, last = len(rows[0]), order.skipped, order.skipped + len(rows)
    groups: list[tuple[range, Result]] = []
    seen: set[str] = set()
    for key, group in groupby(enumerate(found), lambda numbered: repr(numbered[1][width:])):
        members = list(group)
        # The keys are those of another order, such as that of a collation.
        if key in seen:
            return None
        seen.add(key)
        places = range(max(members[0][0], first) - first, min(members[-1][0] + 1, last) - first)
        if places:
            groups.append((places, [row[:width] for _, row in members]))
    whole = Expected(rows, True, tuple(groups))
    covered = sum(len(places) for places, _ in groups) == len(rows)
    return whole.groups if covered and whole.difference(rows) is None else None


def _shown(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_plain, row))
