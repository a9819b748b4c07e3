"""Neo4j finds no text equal to a number, a date or a truth value, or in an order with it; the engine converts
it."""

from typing import Any

import pytest
from evaluate.test_cypher_scorer import GRAPH, SCORER

from expert_worker.evaluate.judge import judged, judged_reference
from expert_worker.evaluate.scorers.cypher_tokens import Query
from expert_worker.evaluate.scorers.cypher_types import mistyped

PERSON = GRAPH["nodes"][0]
MORE = [["active", "bool"], ["score", "number", 0, 10, 0.25], ["year", "cat", [1990, 1991]], ["born", "date"]]
CITY = {
    "label": "City",
    "count": 6,
    "columns": [["name", "name", ["Oslo", "Rome"]], ["year", "cat", ["1990"]]],
}
TYPED: dict[str, Any] = {
    **GRAPH,
    "nodes": [{**PERSON, "columns": [*PERSON["columns"][:2], *MORE]}, CITY],
}


def reason(answer: str, gold: str | None = None) -> str:
    said = judged(SCORER, {"graph": TYPED, "seed": "1", "completion": gold or answer}, answer)
    assert said.correct == (not said.reason)
    return said.reason


WRONG = {
    "p.age > '40'": "p.age is a number and '40' is a text",
    "'40' <= p.age": "'40' is a text and p.age is a number",
    'p.age <> "40"': 'p.age is a number and "40" is a text',
    "p.score = '-1.5'": "p.score is a number and '-1.5' is a text",
    "p.active = 'true'": "p.active is true or false and 'true' is a text",
    "p.born > '2023-01-01'": "p.born is a date and '2023-01-01' is a text",
    "NOT p.born = '2023-01-01'": "p.born is a date and '2023-01-01' is a text",
    "p.born.year = '2023'": "p.born.year is a number and '2023' is a text",
    "1 < p.age <= '40'": "p.age is a number and '40' is a text",
    "p.name = 5": "p.name is a text and 5 is a number",
    "p.name = -5": "p.name is a text and -5 is a number",
    "p.name < date('2023-01-01')": "p.name is a text and date('2023-01-01') is a date",
    "p.year = p.name": "p.year is a number and p.name is a text",
    "p.year STARTS WITH '199'": "p.year is a number and '199' is a text",
    "p.year CONTAINS 9": "p.year is a number, and CONTAINS takes texts only",
    "p.age =~ '4.*'": "p.age is a number and '4.*' is a text",
    "any(x IN [p] WHERE p.age > '40')": "p.age is a number and '40' is a text",
}


@pytest.mark.parametrize("condition", WRONG)
def test_a_comparison_of_two_types_is_wrong(condition: str) -> None:
    said = reason(f"MATCH (p:Person) WHERE {condition} RETURN p.name", "MATCH (p:Person) RETURN p.name")
    end = "" if "takes" in WRONG[condition] else ": Neo4j converts neither"
    assert said == f"Cypher: {WRONG[condition]}{end}"


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("MATCH (p:Person {age: '40'}) RETURN p.name", "age is a number and '40' is a text"),
        ("MATCH ()-[r:LIVES_IN {since: '1990'}]->() RETURN r", "since is a number and '1990' is a text"),
        ("MATCH ()-[r:LIVES_IN]->() WHERE r.since = '1990' RETURN r", "r.since is a number and"),
        ("MATCH (p:Person) WITH p.age AS age WHERE age > '40' RETURN age", "age is a number and '40' is a"),
        ("MATCH (p:Person) WITH p, count(*) AS n WHERE n > '2' RETURN p.name", "n is a number and '2' is a"),
        ("MATCH (p:Person) WITH max(p.born) AS b WHERE b > '2022' RETURN b", "b is a date and '2022' is a"),
        ("MATCH (c:City) WHERE c.year = 1990 RETURN c.name", "c.year is a text and 1990 is a number"),
        (
            "MATCH (p:Person) WHERE toLower(p.name) = 5 RETURN p",
            "toLower(p.name) is a text and 5 is a number",
        ),
    ],
)
def test_the_type_follows_patterns_labels_and_other_names(answer: str, part: str) -> None:
    assert part in reason(answer, "MATCH (p:Person) RETURN p.name")


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (p:Person) WHERE p.age > 40 AND p.name > 'B' AND p.active = true RETURN p.name",
        "MATCH (p:Person) WHERE p.born >= date('2022-05-01') AND date('2024-05-01') > p.born RETURN p.name",
        "MATCH (p:Person {age: 40, name: 'Ada'}) WHERE p.score < 2 OR p.score = -1.5 RETURN p.name",
        "MATCH (p:Person)-[r:LIVES_IN]->(c:City) WHERE c.year = '1990' AND p.year = 1990 RETURN c.name",
        "MATCH (p)-[r:LIVES_IN]->(c) WHERE r.since < 2000 AND c.name STARTS WITH 'O' RETURN c.name",
        "MATCH (p:Person) WHERE p.name + '5' = 'Ada5' AND p.age - 5 > 20 RETURN p.name",
        "MATCH (p:Person) WITH {age: p.name} AS p WHERE p.age = 'Ada' RETURN p.age",
        "MATCH (p:Person) WITH p.age AS a, p.name AS n WHERE a > 40 AND n = 'Ada' RETURN a, n",
        "MATCH (p:Person) RETURN size([age IN ['4'] WHERE age = '4']), p.age AS age",
        "MATCH (p:Person) WITH p, p.age AS x WITH p.name AS x WHERE x = 'Ada' RETURN x",
        "MATCH (p:Person) WHERE p.name IN ['5', 'Ada'] AND p.age IN [5, 40] RETURN p.name",
        "MATCH (p:Person) WITH p, p.name STARTS WITH 'A' AS a WHERE a = true RETURN p.name",
        "MATCH (p:Person) WITH p, p.name ENDS WITH 'a' AS e WHERE e <> false RETURN p.name",
    ],
)
def test_other_comparisons_stay_right(query: str) -> None:
    assert reason(query) == ""


def test_a_property_of_two_types_is_not_judged() -> None:
    # Of a person it is a number, of a city a text.
    assert mistyped(Query("MATCH (x) WHERE x.year = '1990' RETURN x"), TYPED) is None
    assert mistyped(Query("MATCH (x:Person|City) WHERE x.year = '1990' RETURN x"), TYPED) is None
    assert mistyped(Query("MATCH (x) WHERE NOT x:Person AND x.year = '1990' RETURN x"), TYPED) is None


def test_a_condition_on_a_text_is_not_a_text_itself() -> None:
    for condition in ("p.name CONTAINS 'a' = true", "p.name STARTS WITH 'A' = false"):
        assert mistyped(Query(f"MATCH (p:Person) WHERE {condition} RETURN p"), TYPED) is None


@pytest.mark.parametrize("condition", ["p.age IN ['40']", "p.born IN ['2023-01-01']", "p.name IN [5]"])
def test_the_engine_itself_refuses_lists_of_another_type(condition: str) -> None:
    said = reason(f"MATCH (p:Person) WHERE {condition} RETURN p.name", "MATCH (p:Person) RETURN p.name")
    assert "Implicit cast is not supported" in said


def test_a_reference_of_two_types_cannot_be_used() -> None:
    gold = "MATCH (p:Person) WHERE p.age > '40' RETURN p.name"
    said = judged_reference(SCORER, {"graph": TYPED, "seed": "1", "completion": gold})
    assert said.failed and "p.age is a number and '40' is a text" in said.reason
