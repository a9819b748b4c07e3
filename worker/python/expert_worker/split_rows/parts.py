"""Which part each group of rows goes to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from .answers import FEWEST_ROWS

TRAIN, VALIDATION, TEST = range(3)


class Groups:
    """Rows that must stay together, by their numbers from 0. The first row of a group stands for it."""

    def __init__(self, rows: int) -> None:
        self._first = list(range(rows))

    def first(self, row: int) -> int:
        while (above := self._first[row]) != row:
            self._first[row] = row = self._first[above]
        return row

    def join(self, pairs: Iterable[tuple[int, int]]) -> None:
        for one, other in pairs:
            low, high = sorted((self.first(one), self.first(other)))
            self._first[high] = low

    def join_equal(self, keys: Iterable[Hashable]) -> None:
        """Rows with the same key. A key of None joins nothing."""
        seen: dict[Hashable, int] = {}
        self.join((row, seen.setdefault(key, row)) for row, key in enumerate(keys) if key is not None)

    def sizes(self) -> dict[int, int]:
        """Of each group, in the order of their first rows."""
        found: dict[int, int] = {}
        for row in range(len(self._first)):
            first = self.first(row)
            found[first] = found.get(first, 0) + 1
        return found


def assign(groups: Groups, answers: Sequence[Hashable], wanted: tuple[int, int], seed: int) -> list[int]:
    """The part of each row. Validation and test get about as many rows as `wanted`, and of each answer their
    share. A label with too few rows for that is tested, where another has test rows to spare. An answer
    of fewer rows is not a label: as one, it would keep its row in the place that the file has it in."""
    sizes = groups.sizes()
    order = list(sizes)
    random.Random(seed).shuffle(order)
    times = Counter(answers)
    labels = {first: answers[first] if times[answers[first]] >= FEWEST_ROWS else None for first in sizes}
    # A stable sort: the groups of one answer stay shuffled. Answers are numbered by first appearance.
    numbers: dict[Hashable, int] = {}
    for first in sizes:
        numbers.setdefault(labels[first], len(numbers))
    order.sort(key=lambda first: numbers[labels[first]])
    total = len(answers)
    credit = [0.0, 0.0]
    part_of: dict[int, int] = {}
    for first in order:
        size = sizes[first]
        for part in (0, 1):
            credit[part] += wanted[part] * size / total
        most = max((0, 1), key=lambda part: credit[part])
        # A group that is larger than what is due by far is learned from.
        if credit[most] >= size / 2:
            credit[most] -= size
            part_of[first] = most + 1
        else:
            part_of[first] = TRAIN
    _test_each_label(groups, answers, part_of, order)
    return [part_of[groups.first(row)] for row in range(total)]


def _test_each_label(
    groups: Groups, answers: Sequence[Hashable], part_of: dict[int, int], order: Sequence[int]
) -> None:
    """A label that no test row has gets one, in exchange for a group of other test rows of that size."""
    rows_of: dict[int, list[int]] = {}
    tested: Counter[Hashable] = Counter()
    times = Counter(answers)
    for row, answer in enumerate(answers):
        if part_of[first := groups.first(row)] == TEST:
            rows_of.setdefault(first, []).append(row)
            tested[answer] += 1
    missing = {
        it for it, count in times.items() if it is not None and count >= FEWEST_ROWS and not tested[it]
    }
    if not (missing and tested):
        return
    sizes = groups.sizes()
    learned: dict[Hashable, list[int]] = {}
    for first in order:
        if part_of[first] == TRAIN and answers[first] in missing:
            learned.setdefault(answers[first], []).append(first)
    for label, own in learned.items():
        # One to test, and one to learn from.
        for one in sorted(own, key=sizes.__getitem__) if len(own) > 1 else ():
            spare = (
                it for it in rows_of if sizes[it] == sizes[one] and _can_spare(it, rows_of, answers, tested)
            )
            if (other := next(spare, None)) is not None:
                tested.subtract(answers[row] for row in rows_of.pop(other))
                tested[label] += sizes[one]
                part_of[one], part_of[other] = TEST, TRAIN
                break


def _can_spare(
    first: int, rows_of: dict[int, list[int]], answers: Sequence[Hashable], tested: Counter[Hashable]
) -> bool:
    """Whether each label of this group is tested without it."""
    own = Counter(answers[row] for row in rows_of[first])
    return all(label is None or tested[label] > count for label, count in own.items())
