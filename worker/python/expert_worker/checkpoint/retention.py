"""Which checkpoints stay. Each policy names steps it keeps; a checkpoint goes when no policy keeps it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol


class Policy(Protocol):
    def keeps(self, steps: Collection[int]) -> set[int]: ...


@dataclass(frozen=True)
class Everything:
    def keeps(self, steps: Collection[int]) -> set[int]:
        return set(steps)


@dataclass(frozen=True)
class Newest:
    """The last `count` of those that no other policy holds anyway."""

    count: int
    beside: frozenset[int] = frozenset()

    def keeps(self, steps: Collection[int]) -> set[int]:
        free = sorted(set(steps) - self.beside, reverse=True)
        return set(free[: self.count])


@dataclass(frozen=True)
class These:
    """Particular steps: the best one, those still on their way to the mirror."""

    steps: frozenset[int]

    def keeps(self, steps: Collection[int]) -> set[int]:
        return set(self.steps & set(steps))


def policies(limit: int | None, best: int | None, pinned: Collection[int] = ()) -> list[Policy]:
    """`limit` counts the best one, as users of `save_total_limit` expect; the newest always stays."""
    if limit is None:
        return [Everything()]
    held = frozenset() if best is None else frozenset({best})
    return [
        Newest(1),
        These(held),
        These(frozenset(pinned)),
        Newest(max(0, limit - len(held)), beside=held),
    ]


def doomed(steps: Collection[int], rules: Iterable[Policy]) -> list[int]:
    kept: set[int] = set()
    for rule in rules:
        kept |= rule.keeps(steps)
    return sorted(set(steps) - kept)
