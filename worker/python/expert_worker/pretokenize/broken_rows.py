"""Rows that cannot be used: gathered by what is wrong with them, and put into words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from expert_worker.errors import BadInput
from expert_worker.pretokenize.sources import TEXT_FORMATS, format_of, place_of_row

if TYPE_CHECKING:
    from expert_worker._native import Problem

# Kinds of problems that a message lists, places of each, and hints.
_SHOWN, _PLACES, _HINTS = 20, 10, 3
_KINDS = 50
FIX_OR_SKIP = 'Fix the rows, or set training.dataset.on_bad_row to "skip" to leave them out.'
_DIGITS = re.compile(r"\d+")


class BrokenRows:
    """As the native reader groups them: one correction cures all rows of a kind."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], Problem] = {}
        self.total = 0

    def add(self, error: BadInput, name: str, number: int) -> None:
        """A row of the source `name`; the error's message is without its place."""
        self.total += 1
        kind = (error.code, error.hint or _DIGITS.sub("", error.message))
        if kind not in self._kinds and len(self._kinds) == _KINDS:
            return
        code, message, hint, count, places = self._kinds.get(
            kind, (error.code, error.message, error.hint, 0, [])
        )
        if len(places) < _PLACES:
            places.append((name, number))
        self._kinds[kind] = (code, message, hint, count + 1, places)

    def problems(self) -> list[Problem]:
        return list(self._kinds.values())

    def error(self, otherwise: str = FIX_OR_SKIP) -> BadInput:
        return bad_rows(self.problems(), self.total, otherwise)


def bad_rows(problems: Sequence[Problem], total: int, otherwise: str = FIX_OR_SKIP) -> BadInput:
    """Every problem in one message, each once, so that all can be fixed before the next try. `otherwise` is
    the hint where no problem has its own."""
    if problems and problems[0][0] == "lfs_pointer":
        _, message, _, _, [(file, _), *_] = problems[0]
        return BadInput(
            f"{file} {message.split(':')[0]}",
            hint="Run `git lfs install` and `git lfs pull` in the data's repository.",
            code="lfs-pointer",
        )
    hint = hint_of(problems) or otherwise
    return BadInput(
        "\n".join([f"{_rows_are(total)} broken:", *lines(problems, total)]), hint=hint, code="bad-rows"
    )


def left_out(problems: Sequence[Problem], total: int, of: str = "") -> str:
    """A warning where such rows are left out."""
    return "\n".join([f"{_rows_are(total, of)} left out:", *lines(problems, total)])


def hint_of(problems: Sequence[Problem]) -> str | None:
    hints = dict.fromkeys(hint for problem in _by_count(problems) if (hint := _hint(problem)))
    return "\n".join(list(hints)[:_HINTS]) or None


def lines(problems: Sequence[Problem], total: int) -> list[str]:
    """One for each kind of problem, with its count and first places."""
    shown = _by_count(problems)
    rest = total - sum(problem[3] for problem in shown)
    more = [f"... and {rest:,} rows with other problems"] if rest else []
    return [*map(_line, shown), *more]


def _by_count(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: -problem[3])[:_SHOWN]


def _rows_are(total: int, of: str = "") -> str:
    return f"1 row{of} is" if total == 1 else f"{total:,} rows{of} are"


def _hint(problem: Problem) -> str | None:
    code, _, hint, _, places = problem
    path = PurePosixPath(places[0][0])
    # In a file of columns or a packed one, iconv would destroy what is not text.
    if code != "not_utf8" or format_of(path.name) not in TEXT_FORMATS:
        return hint
    target = path.with_stem(f"{path.stem}-utf8")
    return (
        "The file is not UTF-8, most likely Latin-1 (Windows-1252). Save it as UTF-8, in the expert's "
        "folder: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(target))}"
    )


def _line(problem: Problem) -> str:
    _, message, _, count, places = problem
    file, line = places[0]
    first = f"{place_of_row(file, line)}: {message}"
    if count == 1:
        return first
    others = [f"{line}" if name == file else place_of_row(name, line) for name, line in places[1:_PLACES]]
    more = ", ..." if count > len(others) + 1 else ""
    return f"{first} ({count:,} rows: {line}, {', '.join(others)}{more})"
