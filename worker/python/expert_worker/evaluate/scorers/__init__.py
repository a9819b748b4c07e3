"""Scorers by name: the built-in ones, and those that an installed package offers. Never one by its path."""

from __future__ import annotations

import importlib
import re
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from expert_worker.errors import BadInput
from expert_worker.evaluate.verdict import Scorer

ENTRY_POINTS = "expert_worker.scorers"
BUILT_IN = {
    "sql": "expert_worker.evaluate.scorers.sql:SqlScorer",
    "json": "expert_worker.evaluate.scorers.json:JsonScorer",
    "cypher": "expert_worker.evaluate.scorers.cypher:CypherScorer",
    "typescript": "expert_worker.evaluate.scorers.typescript:TypescriptScorer",
    "exact": "expert_worker.evaluate.scorers.exact:ExactScorer",
    "regex": "expert_worker.evaluate.scorers.regex:RegexScorer",
}


def find_scorer(name: str) -> Scorer:
    """A fresh scorer of that name."""
    if name in BUILT_IN:
        module, _, kind = BUILT_IN[name].partition(":")
        return cast(Scorer, getattr(importlib.import_module(module), kind)())
    for point in offered(name):
        return cast(Scorer, point.load()())
    raise unknown(name)


def check_scorer(name: str) -> None:
    """Refuses a name that nothing answers to, before any model is loaded."""
    if name not in BUILT_IN and not offered(name):
        raise unknown(name)


def offered(name: str) -> list[EntryPoint]:
    """The entry points of `name` or of `package:name`."""
    package, _, entry = name.rpartition(":")
    points = list(entry_points(group=ENTRY_POINTS, name=entry))
    return [point for point in points if not package or _of(point) == _normalized(package)]


def _of(point: EntryPoint) -> str | None:
    return _normalized(point.dist.name) if point.dist else None


def _normalized(package: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", package).lower()


def unknown(name: str) -> BadInput:
    installed = [f"{_of(point)}:{point.name}" for point in entry_points(group=ENTRY_POINTS)]
    offered = [*sorted(BUILT_IN), *sorted(installed)]
    return BadInput(
        f"There is no scorer named {name!r}",
        hint=f"evaluation.scorer may be {', '.join(offered)}. A package can offer more as {ENTRY_POINTS}.",
        code="unknown-scorer",
    )
