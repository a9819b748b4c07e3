"""Training questions about tables that were written by hand, in words that no generator has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from expert_worker.evaluate.authoring.rows import Fits
from expert_worker.evaluate.authoring.written import written_rows

FOLDER = Path(__file__).parent / "written"
_PARTS = re.compile(r" JOIN |GROUP BY|\(SELECT|HAVING|\b(?:WITH|OVER|UNION|CASE)\b")


def by_hand(
    system: str, fits: Fits, name: str, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[dict[str, Any]]:
    """Rows of the questions whose answer is wanted, each short enough, without end."""
    return written_rows(FOLDER, system, fits, name, wanted=wanted, level=level_of)


def level_of(answer: str) -> int:
    """One more for each of these: more than one table, groups, a query within it, and what is rarer."""
    return min(4, 1 + len(set(_PARTS.findall(answer))))
