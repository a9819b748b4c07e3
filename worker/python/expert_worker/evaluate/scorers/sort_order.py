"""How a query orders its rows. Those with equal sort keys may stand in any order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from expert_worker.evaluate.answer import Piece
from expert_worker.evaluate.verdict import Verdict

Rows = Sequence[Sequence[Any]]
# Equal for rows that count as equal.
Shown = Callable[[Sequence[Any]], Hashable]

# Beside a right reference.
BY_STORAGE = "depend on the order in which rows are stored"
# A larger float may be a whole number that is not meant.
LARGEST_EXACT = 2**53
_DIRECTION = re.compile(
    r"\s+(?:ASC(?:ENDING)?|DESC(?:ENDING)?)?(?:\s*NULLS\s+(?:FIRST|LAST))?\s*$", re.IGNORECASE
)
# With and without AS.
_ALIAS = re.compile(r"(?:\s+AS|(?<=[\w)\"'`\]]))\s+(\"[^\"]+\"|`[^`]+`|\[[^\]]+\]|\w+)\s*$", re.IGNORECASE)
# A property or a qualified column is not a result column.
_WORD = re.compile(r"(?<![\w.])\w+")


@dataclass(frozen=True)
class Order:
    # Without its limit, with a further column for each sort key; None where that cannot be written.
    with_keys: str | None
    # Rows before the first that is returned; None where it is not a plain number.
    skipped: int | None


@dataclass(frozen=True)
class Expected:
    """What the reference returns. Of rows with equal sort keys a limit may keep any."""

    rows: Rows
    shown: Shown
    in_order: bool = False
    # Of an ordered reference: the places of each group of equal keys, and every row that may stand there.
    groups: tuple[tuple[range, Rows], ...] = ()

    @classmethod
    def of(cls, rows: Rows, order: Order | None, ask: Callable[[str], Rows | None], shown: Shown) -> Expected:
        """`ask` gives the rows of another query, or None where it fails."""
        if order is None:
            return cls(rows, shown)
        return cls(rows, shown, True, _groups(rows, order, ask, shown) or tuple(_alone(rows)))

    def difference(self, found: Rows) -> str | None:
        """None where the rows are right."""
        if len(self.rows) != len(found):
            return f"{len(found)} rows instead of {len(self.rows)}"
        if found and len(self.rows[0]) != len(found[0]):
            return f"{len(found[0])} columns instead of {len(self.rows[0])}"
        if not self.in_order:
            return self._first_other(found)
        for places, allowed in self.groups:
            left = Counter(map(self.shown, allowed))
            for place in places:
                row = self.shown(found[place])
                if not left[row]:
                    return f"row {place + 1} is {found[place]} instead of {self.rows[place]}"
                left[row] -= 1
        return None

    def _first_other(self, found: Rows) -> str | None:
        """Of as many rows, without an order."""
        wanted, given = Counter(map(self.shown, self.rows)), Counter(map(self.shown, found))
        if wanted == given:
            return None
        other = next(row for row in found if given[self.shown(row)] > wanted[self.shown(row)])
        missing = next(row for row in self.rows if wanted[self.shown(row)] > given[self.shown(row)])
        return f"the row {other} instead of {missing}"


def number(value: float) -> float:
    """Equal for numbers that count as equal: whole ones exactly, of any type, others to nine digits."""
    if isinstance(value, float):
        if not (value.is_integer() and abs(value) <= LARGEST_EXACT):
            value = float(f"{value:.9g}")
        return int(value) if value.is_integer() else value
    return value


def of_reference(verdict: Verdict, results: Iterable[Rows], asked: str) -> Verdict:
    """A right reference that says nothing wherever it was asked has a reason beside it: wrong answers may
    equal it. `results` are read only of a right one."""
    if not verdict.correct or not all(map(_says_nothing, results)):
        return verdict
    return replace(verdict, reason=f"return no rows, or one cell of 0 or null, on all three {asked}")


def by_storage(verdict: Verdict, depends: Callable[[], bool]) -> Verdict:
    """A right reference that returns other rows where the same ones are stored in another order has a reason
    beside it: right answers may differ from it. `depends` is asked only of one without a reason."""
    is_plain = verdict.correct and not verdict.reason
    return replace(verdict, reason=BY_STORAGE) if is_plain and depends() else verdict


def _says_nothing(rows: Rows) -> bool:
    """No rows, or one cell of 0 or null: so does many a wrong query."""
    return not rows or (len(rows) == 1 and len(rows[0]) == 1 and rows[0][0] in (None, 0))


def same_rows(expected: Rows, found: Rows, in_order: bool, shown: Shown) -> bool:
    """Columns go by place, their names do not matter."""
    left, right = (list(map(shown, rows)) for rows in (expected, found))
    return left == right if in_order else Counter(left) == Counter(right)


def identity(rows: Rows, in_order: bool, shown: Shown) -> tuple[bool, list[str]]:
    """Equal for equal rows. Of one row or none, the order says nothing."""
    texts = [repr(shown(row)) for row in rows]
    counts = in_order and len(texts) > 1
    return counts, texts if counts else sorted(texts)


def _alone(rows: Rows) -> Iterator[tuple[range, Rows]]:
    """Each row in its own place, where sort keys are not known."""
    return ((range(place, place + 1), [row]) for place, row in enumerate(rows))


def _groups(
    rows: Rows, order: Order, ask: Callable[[str], Rows | None], shown: Shown
) -> tuple[tuple[range, Rows], ...] | None:
    """None where the keys cannot be had: the rows then have one order."""
    if not rows or order.with_keys is None or order.skipped is None:
        return None
    found = ask(order.with_keys)
    if found is None:
        return None
    width, first, last = len(rows[0]), order.skipped, order.skipped + len(rows)
    groups: list[tuple[range, Rows]] = []
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
    whole = Expected(rows, shown, True, tuple(groups))
    covered = sum(len(places) for places, _ in groups) == len(rows)
    return whole.groups if covered and whole.difference(rows) is None else None


def sort_keys(text: str, outer: Sequence[Piece], start: int, end: int) -> list[str]:
    """Those of an ORDER BY, without their directions."""
    return [_DIRECTION.sub("", f"{key} ").strip() for key in split(text, outer, start, end)]


def further_columns(
    columns: Sequence[str], keys: Sequence[str], *, is_distinct: bool, by_place: bool
) -> list[str] | None:
    """The sort keys as columns beside those that are returned; None where that would make other rows.
    A key that names a result column is that column, `by_place` also by its number."""
    named = {_name(column): _expression(column) for column in reversed(columns)}
    added = []
    for key in keys:
        if by_place and key.isdigit():
            if not 1 <= int(key) <= len(columns) or any(column.endswith("*") for column in columns):
                return None
            added.append(_expression(columns[int(key) - 1]))
        elif _plain(key) in named:
            added.append(named[_plain(key)])
        elif is_distinct or any(_plain(word[0]) in named for word in _WORD.finditer(key)):
            # A further column would make other rows, or would read another column of that name.
            return None
        else:
            added.append(key)
    return added


def _name(column: str) -> str:
    """What an ORDER BY may call it: its alias, else its text."""
    alias = _ALIAS.search(column)
    return _plain(alias[1] if alias else column)


def _expression(column: str) -> str:
    return _ALIAS.sub("", column).strip()


def _plain(name: str) -> str:
    return name.strip().strip('"`[]').casefold()


def split(text: str, outer: Sequence[Piece], start: int, end: int) -> Iterator[str]:
    """The parts between commas outside parentheses."""
    for piece in outer:
        if piece.text == "," and start <= piece.start < end:
            yield text[start : piece.start].strip()
            start = piece.end
    yield text[start:end].strip()
