"""Scorers by name: the built-in ones, and those that an installed package offers. Never one by its path."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
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
    for offered in entry_points(group=ENTRY_POINTS, name=name):
        return cast(Scorer, offered.load()())
    raise unknown(name)


def check_scorer(name: str) -> None:
    """Refuses a name that nothing answers to, before any model is loaded."""
    if name not in BUILT_IN and not entry_points(group=ENTRY_POINTS, name=name):
        raise unknown(name)


def unknown(name: str) -> BadInput:
    offered = sorted({*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINTS))})
    return BadInput(
        f"There is no scorer named {name!r}",
        hint=f"evaluation.scorer may be {', '.join(offered)}. A package can offer more as {ENTRY_POINTS}.",
        code="unknown-scorer",
    )
