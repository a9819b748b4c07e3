"""Patterns that never end and answers of megabytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary.answers import tally
from tests.adversary.attempt import Area, Attempt, Tally

CASES: dict[str, tuple[str, dict[str, str], str, dict[str, str]]] = {
    "a pattern that never ends": (
        "regex",
        {"completion": r"(a+)+$"},
        "aaa",
        {"nested repeats": "a" * 60 + "!"},
    ),
    "a long answer": ("exact", {"completion": "a"}, "a", {"10 MB": "a " * 5_000_000}),
    "text that is none": (
        "exact",
        {"completion": "a"},
        "a",
        {"NUL, escapes and a surrogate": "\x00\x1b]0;x\x07\ud800"},
    ),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    for name in list(CASES)[1:] if quick else CASES:
        yield Attempt(name, partial(attempt, name))


def attempt(name: str, folder: Path) -> Tally:
    scorer, row, right, hostile = CASES[name]
    return tally(scorer, row, right, hostile, folder)


AREA = Area("regex", "regex and exact answers", attempts)
