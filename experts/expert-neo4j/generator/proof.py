"""Whether an answer is worth learning: what the engine that judges returns on generated graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from expert_worker.evaluate.scorers.cypher import CypherScorer, is_ordered, same
from expert_worker.evaluate.scorers.cypher_guard import refusal


class Asked(Protocol):
    @property
    def cypher(self) -> str: ...

    @property
    def weaker(self) -> Sequence[str]: ...


@cache
def _engine() -> CypherScorer:
    return CypherScorer()


def proven(graph: dict[str, Any], name: str, question: Asked, graphs: int, untied: str = "") -> bool:
    """Whether the answer says something on every graph and differs from each careless one on some graph. `untied`
    is a query that has no two equal rows where the answer has no tie."""
    if refusal(question.cypher):
        raise AssertionError(f"the judge would refuse {question.cypher}")
    told_apart = [False] * len(question.weaker)
    for place in range(graphs):
        seed = f"{name}/{place}"
        result = _engine().ask(graph, seed, question.cypher)
        if not any(value not in (None, 0) for line in result for value in line):
            return False
        if untied:
            chosen_by = _engine().ask(graph, seed, untied)
            if len({repr(line) for line in chosen_by}) < len(chosen_by):
                return False
        for number, weaker in enumerate(question.weaker):
            if not told_apart[number]:
                other = _engine().ask(graph, seed, weaker)
                told_apart[number] = not same(result, other, is_ordered(question.cypher))
    return all(told_apart)
