"""A query may use only the labels, relationships and properties that the prompt describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from schema_grammar.accepts import refused_at, stops_in

from expert_worker.schema_grammar.cypher import rules
from expert_worker.schema_grammar.graph_names import graph_of

ROOT = Path(__file__).parents[3]
BANK = """(:Person {name:STRING, age:INTEGER})
(:Account {number:STRING, balance:INTEGER})
(:Person)-[:OWNS {since:INTEGER}]->(:Account)
(:Account)-[:SENT]->(:Account)
whose account is overdrawn?"""
# The same graph in other notations, which an empty line divides.
NOTATIONS = """
Person(name, age)
Account(number, balance)
(Person)-[OWNS {since}]->(Account)
(Account)-[SENT]->(Account)

Node properties:
Person {name: STRING, age: INTEGER}
Account {number: STRING, balance: INTEGER}
Relationship properties:
OWNS {since: INTEGER}
The relationships:
(:Person)-[:OWNS]->(:Account)
(:Account)-[:SENT]->(:Account)

Nodes:
- Person: name STRING, age INT
- Account: number STRING, balance INT
Relationships:
- Person -OWNS-> Account: since INT
- Account -SENT-> Account

(p:Person {name, age})-[:OWNS {since}]->(a:Account {number, balance})
(a:Account)-[:SENT]->(b:Account)

(Person {name, age})-[:OWNS {since}]->(Account {number, balance}), (Account)-[:SENT]->(Account)

(Account {number, balance})<-[:OWNS {since}]-(Person {name, age})
(:Account)-[:SENT]->(:Account)

nodes:
  Person: [name, age]
  Account: [number, balance]
relationships:
  - Person -[OWNS {since}]-> Account
  - Account -[SENT]-> Account

(:Person {name: 'Ann', age: 3})
(:Account {number: 'X (y)', balance: -4})
(:Person)-[:OWNS {since: 2020}]->(:Account)
(:Account)-[:SENT]->(:Account)
"""
ACCEPTED = """
MATCH (a:Account) WHERE a.balance < 0 RETURN a.number
MATCH (p:Person)-[o:OWNS]->(a:Account) WHERE o.since > 20 AND NOT p.name = 'Ann' RETURN DISTINCT a.balance
MATCH (a:Account)<-[:OWNS]-(p:Person {name: 'Ann'}) RETURN count(DISTINCT a) AS n ORDER BY n DESC LIMIT 3
match (p:Person)-[:OWNS]->(:Account)-[:SENT*1..3]->(b:Account) return b.number
MATCH (p:Person) WHERE NOT (p)-[:OWNS]->(:Account) RETURN p.name
MATCH (p:Person) WHERE NOT EXISTS { MATCH (p)-[:OWNS]->(a) WHERE a.balance > 3 } RETURN p
MATCH (p:Person) WITH p.age AS age, count(p) AS n WHERE n > 1 RETURN age, n;
MATCH (p:Person) OPTIONAL MATCH (p)-[:OWNS]->(a) RETURN p.name, sum(a.balance), collect(a.number)[0]
MATCH (a:Account)-[:SENT]-(b:Account) RETURN a.number UNION MATCH (p:Person) RETURN p.name
MATCH (p:Person) WHERE p.name STARTS WITH 'A' OR toLower(p.name) CONTAINS "x" RETURN size(p.name)
"""
# With the last word that is read of each.
REFUSED = {
    "MATCH (p:Persons) RETURN p": "Persons",
    "MATCH (p:Customer) RETURN p": "Customer",
    "MATCH (p:Person) RETURN p.title": "title",
    "MATCH (p:Person)-[:HAS]->(a) RETURN a": "HAS",
    # Against the direction of the relationship, and to a label that it does not lead to.
    "MATCH (a:Account)-[:OWNS]->(p:Person) RETURN p": "]->",
    "MATCH (p:Person)-[:OWNS]->(q:Person) RETURN p": "(q:Person",
    "MATCH (p:Person)-[:SENT]->(q) RETURN p": "SENT",
    "MATCH (p:Person) DETACH DELETE p": "DETACH",
    "CREATE (p:Person)": "CREATE",
}


@pytest.mark.parametrize("query", ACCEPTED.strip().splitlines())
def test_queries_over_the_graph_are_accepted(query: str) -> None:
    assert refused_at(rules(BANK), query) is None


@pytest.mark.parametrize("query", REFUSED)
def test_other_names_and_directions_are_refused_at_once(query: str) -> None:
    assert stops_in(rules(BANK), query, REFUSED[query])


@pytest.mark.parametrize("notation", NOTATIONS.strip().split("\n\n"))
def test_notations(notation: str) -> None:
    graph = graph_of(f"{notation}\nwhich people own an account?")
    assert graph is not None and set(graph.labels) >= {"Person", "Account"}
    assert [(it.start, it.type, it.end) for it in graph.relationships] == [
        ("Person", "OWNS", "Account"),
        ("Account", "SENT", "Account"),
    ]
    assert set(graph.properties) >= {"name", "age", "number", "balance", "since"}
    assert not {"which", "people", "own"} & set(graph.properties)


def test_graphs_of_examples_before_the_question_do_not_count() -> None:
    example = (
        "(:Film {title:STRING})\n(:Film)-[:SHOWN_IN]->(:Cinema)\nall films\nMATCH (f:Film) RETURN f.title\n"
    )
    graph = graph_of(example + BANK)
    assert graph is not None and not {"Film", "Cinema"} & {*graph.labels, *graph.properties}


@pytest.mark.parametrize("prompt", ["which people are there?", "", "a -> b", "Nodes of all kinds -[ ]-> x"])
def test_without_a_graph_names_are_free(prompt: str) -> None:
    assert refused_at(rules(prompt), "MATCH (a:Any)-[:X {y: 1}]->(b) RETURN a.z") is None


@pytest.mark.parametrize("name", ["validation", "test", "people", "unseen"])
def test_every_reference_of_the_expert_is_accepted(name: str) -> None:
    lines = (ROOT / f"experts/expert-neo4j/datasets/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines[::5]:
        asked, answer = json.loads(line)["messages"][-2:]
        assert refused_at(rules(asked["content"]), answer["content"]) is None, answer
