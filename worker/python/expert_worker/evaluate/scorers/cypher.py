"""Cypher is judged by an embedded engine: it must return the reference's rows on three generated graphs.

Where the engine reads a query in another way than Neo4j, the query counts as Neo4j reads it.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from expert_worker.evaluate import answer as answers
from expert_worker.evaluate.scorers.cypher_calls import in_engine_calls
from expert_worker.evaluate.scorers.cypher_columns import columns_of
from expert_worker.evaluate.scorers.cypher_data import Graph
from expert_worker.evaluate.scorers.cypher_forms import in_engine_forms, with_own_list_variables
from expert_worker.evaluate.scorers.cypher_guard import STARTS, UNCLOSED, refusal
from expert_worker.evaluate.scorers.cypher_names import misspelled, with_distinct_variables
from expert_worker.evaluate.scorers.cypher_order import order_of
from expert_worker.evaluate.scorers.cypher_tokens import Query
from expert_worker.evaluate.scorers.cypher_trails import Trails, with_trails
from expert_worker.evaluate.scorers.cypher_types import mistyped
from expert_worker.evaluate.scorers.sort_order import (
    Expected,
    Shown,
    by_storage,
    identity,
    number,
    of_reference,
    same_rows,
)
from expert_worker.evaluate.verdict import RIGHT, BadRow, Row, Verdict, check_fields, unparsed, wrong

GRAPHS = 3
KEPT = 64
MAX_ROWS = 2_000
CYPHER = answers.Language(
    starts=tuple(rf"{word}\b" for word in STARTS),
    returns=frozenset({"RETURN"}),
    before=frozenset({"MATCH", "OPTIONAL", "WHERE", "WITH", "UNWIND", "RETURN", "AND", "OR"}),
    anywhere=frozenset({"ORDER", "SKIP", "LIMIT", "UNION"}),
)
_USED_TWICE = "may use one relationship twice in a MATCH, as Neo4j does not"
# Without any of these, a query returns the same rows whatever their order is.
_MAY_CHOOSE = re.compile(r"\b(?:LIMIT|SKIP|COLLECT|ID|OFFSET)\b", re.IGNORECASE)
# Of a query, a keyword and a name are followed by a sign or by another keyword.
_PROSE = re.compile(
    r"(?:MATCH|UNWIND|WITH|RETURN|OPTIONAL)\s+(?!(?:MATCH|DISTINCT|CASE|NOT)\b)[^\W\d]\w*"
    r"(?:\s*[:.!]\s*\n|\s+(?!(?:AS|MATCH|OPTIONAL|UNWIND|WITH|RETURN|WHERE|ORDER|SKIP|LIMIT|UNION"
    r"|AND|OR|XOR|IN|IS|STARTS|ENDS|CONTAINS)\b)[^\W\d]\w*)",
    re.IGNORECASE,
)


class CypherScorer:
    """Graphs are kept from answer to answer: questions cannot change them, one that fails costs its graph."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[str, Graph] = OrderedDict()

    def extract(self, text: str) -> str:
        return answers.statement(text, CYPHER, _is_prose)

    def judge(self, row: Row, answer: str) -> Verdict:
        return self._judge(row, answer, GRAPHS)

    def judge_reference(self, row: Row) -> Verdict:
        """On one graph: what it cannot be asked of one, it can be asked of none. It may return nothing."""
        gold = self.extract(str(row["completion"]))
        verdict = of_reference(self._judge(row, gold, 1), self._results(row, gold), "graphs")
        if verdict.correct and not verdict.reason and _trails(gold)[0].is_partial:
            return replace(verdict, reason=_USED_TWICE)
        return by_storage(verdict, lambda: self._depends_on_storage(row, gold))

    def _depends_on_storage(self, row: Row, question: str) -> bool:
        """Whether it returns other rows of the first graph where that is filled backwards."""
        if _MAY_CHOOSE.search(question) is None:
            return False
        seed = f"{row['seed']}/0"
        expected = self.expected(row["graph"], seed, question)
        backwards = Graph(row["graph"], seed, reverse=True)
        try:
            found = _rows(backwards, question)
        except RuntimeError:
            return False
        finally:
            backwards.close()
        shown = expected.shown
        unplaced = replace(expected, shown=lambda it: shown([_without_ends(value) for value in it]))
        return unplaced.difference(found) is not None

    def _judge(self, row: Row, answer: str, graphs: int) -> Verdict:
        gold = self.extract(str(row["completion"]))
        if not gold:
            raise BadRow("there is no query in the reference answer")
        if not answer:
            return unparsed("no Cypher in the answer")
        refused = refusal(answer)
        if refused:
            return unparsed(refused) if refused == UNCLOSED else wrong(refused)
        check_fields(row, "seed", "graph")
        for place in range(graphs):
            seed = f"{row['seed']}/{place}"
            try:
                expected = self.expected(row["graph"], seed, gold)
            except Exception as error:
                # A row may hold anything.
                raise BadRow(f"the reference answer on its graph: {error}") from None
            try:
                found = self.ask(row["graph"], seed, answer)
            except RuntimeError as error:
                verdict = unparsed if str(error).startswith("Parser exception") else wrong
                return verdict(f"Cypher: {error}")
            difference = expected.difference(found)
            if difference:
                return wrong(difference)
        return RIGHT

    def result_key(self, row: Row, answer: str) -> object:
        """Its rows on all graphs; their order counts where the answer has one."""
        if not answer or refusal(answer):
            return None
        in_order = is_ordered(answer)
        try:
            found = list(self._results(row, answer))
        except RuntimeError:
            return None
        return [identity(rows, in_order, _shown_by(answer)) for rows in found]

    def _results(self, row: Row, question: str) -> Iterator[list[list[Any]]]:
        """What it returns on each graph."""
        return (self.ask(row["graph"], f"{row['seed']}/{place}", question) for place in range(GRAPHS))

    def expected(self, graph: dict[str, Any], seed: str, gold: str) -> Expected:
        """Asked once while the graph is kept: each answer to a row is compared with it."""
        key = _key(graph, seed)
        kept = self._graphs[key].expected.get(gold) if key in self._graphs else None
        if kept is None:
            rows = self.ask(graph, seed, gold)
            order, shown = order_of(gold, CYPHER), _shown_by(gold)
            kept = Expected.of(rows, order, lambda it: self._asked(graph, seed, it), shown)
            if key in self._graphs:
                self._graphs[key].expected[gold] = kept
        return kept

    def _asked(self, graph: dict[str, Any], seed: str, question: str) -> list[list[Any]] | None:
        try:
            return self.ask(graph, seed, question)
        except RuntimeError:
            return None

    def ask(self, graph: dict[str, Any], seed: str, question: str) -> list[list[Any]]:
        """What Neo4j would return; the engine is asked in its own words for that."""
        asked = Query(question)
        wrong_here = misspelled(asked, graph) or mistyped(asked, graph)
        if wrong_here:
            raise RuntimeError(wrong_here)
        key = _key(graph, seed)
        opened = self._graphs.pop(key, None) or Graph(graph, seed)
        try:
            rows = _rows(opened, question)
        except RuntimeError:
            opened.close()
            raise
        self._keep(key, opened)
        if len(rows) > MAX_ROWS:
            raise RuntimeError(f"more than {MAX_ROWS} rows")
        return rows

    def _keep(self, key: str, graph: Graph) -> None:
        self._graphs[key] = graph
        if len(self._graphs) > KEPT:
            self._graphs.popitem(last=False)[1].close()


def _is_prose(statement: str) -> bool:
    return _PROSE.match(statement) is not None


def _key(graph: dict[str, Any], seed: str) -> str:
    return json.dumps([graph, seed])


def is_ordered(statement: str) -> bool:
    """Whether the last RETURN is ordered; an order before it only chooses."""
    return order_of(statement, CYPHER) is not None


def same(expected: list[list[Any]], found: list[list[Any]], in_order: bool) -> bool:
    """Equal rows; numbers with a fraction are equal to nine digits."""
    return same_rows(expected, found, in_order, lambda row: repr([_plain(value) for value in row]))


def _trails(question: str) -> tuple[Trails, dict[str, str]]:
    """In the engine's words, and what the variables are called that have another name there."""
    distinct, renamed = with_distinct_variables(Query(question))
    own, hidden = with_own_list_variables(Query(distinct))
    called = in_engine_calls(Query(own))
    return with_trails(Query(in_engine_forms(Query(called)))), {**hidden, **renamed}


def _rows(graph: Graph, question: str) -> list[list[Any]]:
    """Asks in the engine's words; raises in those of the question."""
    trails, renamed = _trails(question)
    try:
        rows = graph.ask(trails.text, MAX_ROWS)
    except RuntimeError as error:
        raise RuntimeError(_with_own_names(str(error), renamed)) from None
    return _without_key(rows, question) if "properties" in question.lower() else rows


def _with_own_names(reason: str, renamed: dict[str, str]) -> str:
    for new, old in renamed.items():
        reason = re.sub(rf"\b{new}\b", old, reason)
    return reason


def _without_key(rows: list[list[Any]], question: str) -> list[list[Any]]:
    """`properties(n)` without the hidden key, which Neo4j does not have."""
    columns = columns_of(question)
    for row in rows:
        for place, value in enumerate(row):
            if isinstance(value, dict) and columns.calls("properties", place, len(row)):
                row[place] = {key: it for key, it in value.items() if key != "id"}
    return rows


def _without_ends(value: Any) -> Any:
    """A relationship without the places at which its nodes are stored."""
    if isinstance(value, list):
        return [_without_ends(part) for part in value]
    if isinstance(value, dict):
        return {key: _without_ends(it) for key, it in value.items() if key not in {"_SRC", "_DST"}}
    return value


def _shown_by(question: str) -> Shown:
    """Lists that this query collects have no order."""
    columns = columns_of(question)

    def shown(row: Sequence[Any]) -> Hashable:
        return repr(
            [
                _plain(value, has_order=not columns.calls("collect", place, len(row)))
                for place, value in enumerate(row)
            ]
        )

    return shown


def _plain(value: Any, *, has_order: bool = True) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, list):
        parts = [_plain(part, has_order=has_order) for part in value]
        return parts if has_order else sorted(parts, key=repr)
    if isinstance(value, dict):
        # A node or a relationship, not a map of the query.
        hidden = {"_ID", "id"} if value.keys() >= {"_ID", "_LABEL"} else set()
        fields = {key: _plain(it, has_order=has_order) for key, it in value.items() if key not in hidden}
        return sorted((key, repr(field)) for key, field in fields.items())
    return str(value)
