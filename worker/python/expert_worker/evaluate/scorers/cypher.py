"""Cypher is judged by an embedded engine: it must return the reference's rows on three generated graphs."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Any

from expert_worker.evaluate import answer as answers
from expert_worker.evaluate.scorers.cypher_data import Graph
from expert_worker.evaluate.scorers.cypher_guard import STARTS, UNCLOSED, refusal
from expert_worker.evaluate.scorers.cypher_order import order_of
from expert_worker.evaluate.scorers.sort_order import Expected, identity, number, of_reference, same_rows
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
        return of_reference(self._judge(row, gold, 1), self._results(row, gold), "graphs")

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
        return [identity(rows, in_order, _shown) for rows in found]

    def _results(self, row: Row, question: str) -> Iterator[list[list[Any]]]:
        """What it returns on each graph."""
        return (self.ask(row["graph"], f"{row['seed']}/{place}", question) for place in range(GRAPHS))

    def expected(self, graph: dict[str, Any], seed: str, gold: str) -> Expected:
        """Asked once while the graph is kept: each answer to a row is compared with it."""
        key = _key(graph, seed)
        kept = self._graphs[key].expected.get(gold) if key in self._graphs else None
        if kept is None:
            rows = self.ask(graph, seed, gold)
            kept = Expected.of(rows, order_of(gold, CYPHER), lambda it: self._asked(graph, seed, it), _shown)
            if key in self._graphs:
                self._graphs[key].expected[gold] = kept
        return kept

    def _asked(self, graph: dict[str, Any], seed: str, question: str) -> list[list[Any]] | None:
        try:
            return self.ask(graph, seed, question)
        except RuntimeError:
            return None

    def ask(self, graph: dict[str, Any], seed: str, question: str) -> list[list[Any]]:
        key = _key(graph, seed)
        opened = self._graphs.pop(key, None) or Graph(graph, seed)
        try:
            rows = opened.ask(question, MAX_ROWS)
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
    """Equal rows; lists inside a row go by content, numbers with a fraction are equal to nine digits."""
    return same_rows(expected, found, in_order, _shown)


def _shown(row: Sequence[Any]) -> str:
    return repr([_plain(value) for value in row])


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, list):
        return sorted((_plain(part) for part in value), key=repr)
    if isinstance(value, dict):
        return sorted((key, repr(_plain(part))) for key, part in value.items() if key not in {"_ID", "id"})
    return str(value)
