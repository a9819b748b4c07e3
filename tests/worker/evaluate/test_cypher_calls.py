"""Functions, places in lists and parts of dates mean what they mean in Neo4j, which counts from 0."""

from typing import Any

import pytest
from evaluate.test_cypher_scorer import SCORER
from evaluate.test_cypher_types import TYPED

from expert_worker.evaluate.scorers.cypher_calls import in_engine_calls
from expert_worker.evaluate.scorers.cypher_tokens import Query

LONGEST = 50_000


def asked(query: str) -> list[list[Any]]:
    return SCORER.ask(TYPED, "1/0", query)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[10, 20, 30][0]", 10),
        ("[10, 20, 30][3]", None),
        ("[10, 20, 30][-1]", 30),
        ("[10, 20, 30][-4]", None),
        ("[10, 20, 30][size([1]) + 1]", 30),
        ("[[1, 2], [3]][0][1]", 2),
        ("[10, 20, 30][[2, 1][1]]", 20),
        ("[x IN [[5, 6], [7]] | x[0]]", [5, 7]),
        ("[x IN [1, 2] | x + 1][1]", 3),
        ("[10, 20, 30][0..2]", [10, 20]),
        ("[10, 20, 30][1..2]", [20]),
        ("[10, 20, 30][1..]", [20, 30]),
        ("[10, 20, 30][..-1]", [10, 20]),
        ("[10, 20, 30][-2..]", [20, 30]),
        ("[10, 20, 30][1 + 1..9]", [30]),
        ("head([1, 2])", 1),
        ("head([])", None),
        ("last([1, 2])", 2),
        ("tail([1, 2, 3])", [2, 3]),
        ("substring('hello', 0, 3)", "hel"),
        ("substring('hello', 1)", "ello"),
        ("substring('hello', 1 + 1, 2)", "ll"),
        ("substring('hello', 9)", ""),
        ("split('a,b', ',')[1]", "b"),
        ("toString(5) + toString(date('2020-01-01'))", "52020-01-01"),
        ("toInteger('5')", 5),
        ("toInteger(5.7)", 5),
        ("toInteger(-5.7)", -5),
        ("toInteger(toString(toInteger('7.9')))", 7),
        ("toFloat('5.5')", 5.5),
        ("round(2.5)", 3),
        ("round(-2.5)", -2),
        ("round(2.567, 1)", 2.6),
        ("isEmpty('')", True),
        ("date('2020-03-01')", asked("RETURN date('2020-03-01')")[0][0]),
        ("{year: 1}.year", 1),
    ],
)
def test_an_expression_has_the_value_of_neo4j(expression: str, value: object) -> None:
    assert asked(f"RETURN {expression}") == [[value]]


PEOPLE = "MATCH (p:Person)"


@pytest.mark.parametrize(
    ("query", "same"),
    [
        (f"{PEOPLE} RETURN count(labels(p)[0])", "RETURN 14"),
        (f"{PEOPLE} WHERE 'Person' IN labels(p) RETURN DISTINCT labels(p)", "RETURN ['Person']"),
        (f"{PEOPLE}-[r]->(:City) RETURN DISTINCT type(r)", "RETURN 'LIVES_IN'"),
        (f"{PEOPLE} WHERE p.age < 0 RETURN collect(p.name)[0]", "RETURN NULL"),
        (f"{PEOPLE} WHERE p.born.year = 2023 RETURN p.name", f"{PEOPLE} WHERE {{}} RETURN p.name"),
        (
            f"{PEOPLE} RETURN p.name, COUNT {{ (p)-->() }}",
            f"{PEOPLE} RETURN p.name, COUNT {{ MATCH (p)-->() }}",
        ),
        (
            f"{PEOPLE} WHERE EXISTS {{ (p)-[:KNOWS]->(q) WHERE q.age > 40 }} RETURN p.name",
            f"{PEOPLE} WHERE EXISTS {{ MATCH (p)-[:KNOWS]->(q) WHERE q.age > 40 }} RETURN p.name",
        ),
        ("MATCH ()-[r:KNOWS]->() RETURN startNode(r).name", "MATCH (p)-[r:KNOWS]->() RETURN p.name"),
        ("MATCH ()-[r:KNOWS]->() RETURN endNode(r).name", "MATCH ()-[r:KNOWS]->(p) RETURN p.name"),
        ("MATCH q=(p)-[:KNOWS]->() RETURN nodes(q)[0].name", "MATCH (p)-[:KNOWS]->() RETURN p.name"),
    ],
)
def test_a_query_returns_the_rows_of_neo4j(query: str, same: str) -> None:
    same = same.replace("{}", "p.born >= date('2023-01-01') AND p.born <= date('2023-12-31')")
    found, wanted = asked(query), asked(same)
    assert found and sorted(found, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (p:Person)-[:KNOWS]->(q)-[r:KNOWS*1..3]-() WHERE p.age IN [1, 2] RETURN [1, 2], p.type, r",
        "MATCH (p:Person) RETURN collect({age: p.age})[1:2], p['name'], round(p.age, 1)",
        "MATCH (p:Person) WHERE NOT (p)-[:KNOWS]->() RETURN CASE WHEN p.age = 1 THEN [1] END",
        "MATCH (p:Person",
        "RETURN substring('a', 1, [x[0",
        "RETURN 'p.born.year, [1][0]', head()",
    ],
)
def test_other_queries_stay_as_they_are(query: str) -> None:
    assert in_engine_calls(Query(query)) == query


@pytest.mark.parametrize(
    "part",
    ["x" + "[0]" * 1300, "x[0]," * 800 + "1", "x[" * 900 + "0" + "]" * 900, "toInteger(1)," * 280 + "1"],
)
def test_a_query_does_not_grow_without_end(part: str) -> None:
    assert len(in_engine_calls(Query(f"RETURN {part}"))) < LONGEST
