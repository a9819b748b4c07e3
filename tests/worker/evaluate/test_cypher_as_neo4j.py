"""Cypher means what it means in Neo4j where the engine reads it in another way: the case of names,
relationships that one MATCH uses once, and the order of lists."""

from collections.abc import Iterator
from typing import Any

import pytest
from evaluate.test_cypher_scorer import GRAPH, SCORER, verdict

from expert_worker.evaluate.judge import judged, judged_reference
from expert_worker.evaluate.scorers.cypher_forms import in_engine_forms
from expert_worker.evaluate.scorers.cypher_guard import refusal
from expert_worker.evaluate.scorers.cypher_tokens import Query
from expert_worker.evaluate.scorers.cypher_trails import MOST_RELATIONSHIPS, with_trails


def row(gold: str) -> dict[str, Any]:
    return {"graph": GRAPH, "seed": "1", "completion": gold}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("MATCH (p:person) RETURN p.name", "there is no label person, only Person"),
        ("MATCH (p:City|PERSON) RETURN p.name", "there is no label PERSON, only Person"),
        ("MATCH (p)-[:knows]->(:Person) RETURN p.name", "there is no relationship type knows, only KNOWS"),
        (
            "MATCH (p)-[r:KNOWS|:Lives_In*1..2]->() RETURN p.name",
            "there is no relationship type Lives_In, only LIVES_IN",
        ),
        ("MATCH (p:Person) RETURN p.Name", "there is no property Name, only name"),
        ("MATCH (p:Person {NAME: 'Ada'}) RETURN p.name", "there is no property NAME, only name"),
        ("MATCH (p:Person)-[{Since: 1}]->() RETURN p.name", "there is no property Since, only since"),
        ("MATCH (p:Person) RETURN p.ID", "there is no property ID, only id"),
        ("MATCH (p:Person) RETURN P.name", "Binder exception: Variable P is not in scope."),
        (
            "MATCH (p:Person) RETURN p.name AS Who ORDER BY who",
            "Binder exception: Variable who is not in scope.",
        ),
    ],
)
def test_a_name_in_another_case_is_wrong(answer: str, reason: str) -> None:
    assert verdict("MATCH (p:Person) RETURN p.name", answer) == (False, f"Cypher: {reason}")


@pytest.mark.parametrize(
    "query",
    [
        "match (P:Person) where P.age > 30 return Count(P)",
        "MATCH (person:Person)-[knows:KNOWS]->(Name) RETURN person.name AS Age, Name.name AS KNOWS",
        "MATCH (p:Person) RETURN p.name AS P ORDER BY P DESC LIMIT 3",
        "MATCH (p:Person) WHERE p.name <> 'person' AND p.name <> \"AGE: [:knows]\" RETURN p.name",
        "MATCH (p:Person) WITH {Name: p.name, AGE: p.age} AS m RETURN m.Name, m.AGE",
        "MATCH (p:Person) RETURN {Person: p.name, Age: 1}",
        "MATCH (p:Person) RETURN collect({AGE: p.age})[1:2]",
        "MATCH (p:Person) WHERE any(AGE IN [1, 20] WHERE AGE < p.age) RETURN p.id",
    ],
)
def test_other_words_may_have_any_case(query: str) -> None:
    assert verdict(query, query) == (True, "")


def test_variables_that_differ_in_case_are_two() -> None:
    gold = "MATCH (a:Person), (b:City) RETURN a.name, b.name"
    assert verdict(gold, "MATCH (p:Person), (P:City) RETURN p.name, P.name") == (True, "")
    assert not verdict(gold, "MATCH (p:Person), (P:City) RETURN P.name, p.name")[0]
    # The engine alone would take `p` for the column P.
    said = verdict("MATCH (p:Person) RETURN p.name", "MATCH (p:Person) WITH p.name AS P RETURN p")
    assert said == (False, "Cypher: Binder exception: Variable p is not in scope.")


def test_comments_and_quoted_names_do_not_reach_the_check() -> None:
    assert refusal("MATCH (p:`person`) RETURN p.name") == "` is not allowed in a query"
    assert refusal("MATCH (p:Person) // (p:person)\nRETURN p.name") == "comments are not allowed in a query"


def test_a_reference_in_another_case_cannot_be_used() -> None:
    said = judged_reference(SCORER, row("MATCH (p:person) RETURN p.name"))
    assert (
        said.failed
        and said.reason == "the reference answer on its graph: there is no label person, only Person"
    )


KNOWS, ANY = ("KNOWS",), ("KNOWS", "LIVES_IN")
Step = tuple[tuple[str, ...], int, int]


def neo4j_count(steps: list[Step]) -> int:
    """How many ways lead from a person over the steps (types, least and most relationships), whatever their
    direction, with no relationship twice."""
    found = SCORER.ask(GRAPH, "1", "MATCH (a)-[r]->(b) RETURN id(a), id(b), id(r), label(r)")
    edges = [(str(start), str(end), str(edge), kind) for start, end, edge, kind in found]
    people = SCORER.ask(GRAPH, "1", "MATCH (p:Person) RETURN id(p)")

    def walks(
        node: str, step: Step, used: frozenset[str], length: int
    ) -> Iterator[tuple[str, frozenset[str]]]:
        types, least, most = step
        if length >= least:
            yield node, used
        if length == most:
            return
        for start, end, edge, kind in edges:
            for here, there in ((start, end), (end, start)):
                if here == node and kind in types and edge not in used:
                    yield from walks(there, step, used | {edge}, length + 1)

    def ways(node: str, rest: list[Step], used: frozenset[str]) -> int:
        if not rest:
            return 1
        return sum(ways(there, rest[1:], walked) for there, walked in walks(node, rest[0], used, 0))

    return sum(ways(str(person), steps, frozenset()) for (person,) in people)


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("(:Person)-[:KNOWS]-()-[:KNOWS]-()", [(KNOWS, 1, 1)] * 2),
        ("(:Person)-[:KNOWS]-(q), (q)-[r:KNOWS]-()", [(KNOWS, 1, 1)] * 2),
        ("(:Person)--()--()", [(ANY, 1, 1)] * 2),
        ("(:Person)-[:LIVES_IN|KNOWS]-()-[:KNOWS]-() -- ()", [(ANY, 1, 1), (KNOWS, 1, 1), (ANY, 1, 1)]),
        ("(:Person)-[:KNOWS*1..3]-()", [(KNOWS, 1, 3)]),
        ("(:Person)-[:KNOWS*0..2]-()-[:KNOWS]-()", [(KNOWS, 0, 2), (KNOWS, 1, 1)]),
        ("(:Person)-[]-()-[r*1..2]-()", [(ANY, 1, 1), (ANY, 1, 2)]),
        ("(:Person)-[*1..2]-()-[r:KNOWS*..2]-()", [(ANY, 1, 2), (KNOWS, 1, 2)]),
    ],
)
def test_a_match_uses_no_relationship_twice(pattern: str, steps: list[Step]) -> None:
    wanted = neo4j_count(steps)
    assert SCORER.ask(GRAPH, "1", f"MATCH {pattern} RETURN count(*)") == [[wanted]]
    assert SCORER.ask(GRAPH, "1", f"MATCH {pattern} WHERE true OR false RETURN count(*)") == [[wanted]]


def test_another_match_may_use_it_again() -> None:
    gold = "MATCH (p:Person)-[:KNOWS]-(q)-[:KNOWS]-(r) RETURN p.name, r.name"
    assert not verdict(gold, "MATCH (p:Person)-[:KNOWS]-(q) MATCH (q)-[:KNOWS]-(r) RETURN p.name, r.name")[0]
    other = (
        "MATCH (p:Person)-[a:KNOWS]-(q) MATCH (q)-[b:KNOWS]-(r) WHERE id(a) <> id(b) RETURN p.name, r.name"
    )
    assert verdict(gold, other) == (True, "")


def test_a_condition_against_the_way_back_may_be_left_out() -> None:
    answer = (
        "MATCH (p:Person)-[:LIVES_IN]->(:City)<-[:LIVES_IN]-(q:Person) WHERE p.name = 'Ada' RETURN q.name"
    )
    gold = answer.replace(" RETURN", " AND q.name <> 'Ada' RETURN")
    assert verdict(gold, answer) == (True, "")


FIRST = "id(relationship_1) <> id(relationship_2)"
WRITTEN = [
    # In a subquery, beside OR, and where a clause follows whose name is part of an operator.
    (
        "MATCH (p) OPTIONAL MATCH (p)-[:A]->()<-[:A]-(q) WHERE q.n STARTS WITH 'x' OR q.n = 'WITH' "
        "WITH p RETURN p",
        "MATCH (p) OPTIONAL MATCH (p)-[relationship_1:A]->()<-[relationship_2:A]-(q) WHERE "
        f"{FIRST} AND ( q.n STARTS WITH 'x' OR q.n = 'WITH') WITH p RETURN p",
    ),
    (
        "MATCH (p) WHERE NOT EXISTS { MATCH (p)-[a:A]->()<-[b:A]-() } RETURN p",
        "MATCH (p) WHERE NOT EXISTS { MATCH (p)-[a:A]->()<-[b:A]-() WHERE id(a) <> id(b) } RETURN p",
    ),
    (
        "MATCH (p) WHERE NOT(p)-[:A]->()<--() OR p.n > 1 RETURN p",
        "MATCH (p) WHERE NOT EXISTS { MATCH (p)-[relationship_1:A]->()<-[relationship_2]-() "
        f"WHERE {FIRST} }} OR p.n > 1 RETURN p",
    ),
    ("MATCH (p) WHERE (p)-[:A*2..3]-() RETURN p", "MATCH (p) WHERE (p)-[:A* TRAIL 2..3]-() RETURN p"),
    # Names that are taken.
    (
        "MATCH (Relationship_1)--()--() RETURN count(*)",
        "MATCH (Relationship_1)-[relationship_2]-()-[relationship_3]-() "
        "WHERE id(relationship_2) <> id(relationship_3) RETURN count(*)",
    ),
]


@pytest.mark.parametrize(("query", "written"), WRITTEN)
def test_the_engine_is_asked_with_conditions(query: str, written: str) -> None:
    assert with_trails(Query(query)).text == written


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (a)-[:A]->(b)-[:B]->(c) RETURN a",
        "MATCH (a)-[:A]->(b) MATCH (b)-[:A]->(c) RETURN a",
        "MATCH (a) WHERE a.x - (a.y) - [1][1] > 0 AND (a)-[:A]->() RETURN a",
        "MATCH (a)-[r:A* SHORTEST 1..3]-(b)-[:A]-(c) RETURN a",
        "MATCH (a)-[:A]-(b",
        "MATCH (a)-[:A-(b)-[:A]-(c) RETURN '",
    ],
)
def test_other_queries_stay_as_they_are(query: str) -> None:
    assert with_trails(Query(query)).text == query


NONE = "MATCH (p:Person) WHERE p.age < 0 RETURN p.name"
NAMED = "MATCH (p:Person) WHERE p.name = 'Ada' RETURN p.name"


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (NONE, "MATCH (p:Person:City) RETURN p.name"),
        (NONE, "MATCH (p:Person&City {name: 'Ada'}) RETURN p.name"),
        (NONE, "MATCH (p:Person) WHERE (p:Person:City)-[:KNOWS]->() RETURN p.name"),
        (NAMED, "MATCH (p:Person:Person {name: 'Ada'}) RETURN p.name"),
        ("MATCH (p:Person) RETURN p.name", "MATCH (p) WHERE p:Person RETURN p.name"),
        ("MATCH (p) RETURN p.name", "MATCH (p) WHERE p:Person OR (p:City) RETURN p.name"),
        ("MATCH (p) RETURN p.name", "MATCH (p) WHERE p:Person|City RETURN p.name"),
        (NONE, "MATCH (p) WHERE p:Person:City RETURN p.name"),
        ("MATCH (c:City) RETURN c.name", "MATCH (c) WHERE NOT c:Person RETURN c.name"),
        (
            "MATCH (p:Person) RETURN p.name",
            "MATCH (p:Person)-[r:LIVES_IN]->() WHERE r:LIVES_IN "
            "WITH collect(p.id) AS ids MATCH (q:Person) RETURN q.name",
        ),
        # Null has no label, and a condition on it is neither true nor false.
        (
            NONE,
            "MATCH (p:Person) OPTIONAL MATCH (p)-[:LIVES_IN]->(c:City {name: 'x'}) "
            "WITH p, c WHERE c:City OR NOT c:City RETURN p.name",
        ),
    ],
)
def test_labels_mean_what_they_mean_there(gold: str, answer: str) -> None:
    assert verdict(gold, answer) == (True, "")


# Of 14 people and 6 cities; of a null neither the label nor its absence is true.
NOWHERE = "MATCH (p:Person) OPTIONAL MATCH (p)-[:LIVES_IN]->(c:City {name: 'x'})"
KNOWN = "MATCH ()-[r:KNOWS]->()"


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("RETURN 14", "MATCH (p) RETURN count(CASE WHEN p:Person THEN 1 END)"),
        ("RETURN 14", "MATCH (p:Person) RETURN count(CASE WHEN p:Person THEN 1 END)"),
        ("RETURN 6", "MATCH (p) RETURN count(CASE WHEN NOT p:Person THEN 1 END)"),
        ("RETURN 14", "MATCH (p) RETURN count(CASE WHEN NOT NOT p:Person THEN 1 END)"),
        ("RETURN 20", "MATCH (p) RETURN count(CASE WHEN p:Person|City THEN 1 END)"),
        ("RETURN 0", "MATCH (p) RETURN count(CASE WHEN NOT p:Person|City THEN 1 END)"),
        ("RETURN 0", "MATCH (p) RETURN count(CASE WHEN p:Person:City THEN 1 END)"),
        ("RETURN 20", "MATCH (p) RETURN count(CASE WHEN NOT p:Person&City THEN 1 END)"),
        ("RETURN 614", "MATCH (p) RETURN sum(CASE WHEN p.age < 0 THEN 7 WHEN p:Person THEN 1 ELSE 100 END)"),
        ("RETURN 614", "MATCH (p) RETURN sum(CASE p:Person WHEN true THEN 1 ELSE 100 END)"),
        ("RETURN 14", "MATCH (p) WHERE CASE WHEN p:Person THEN true ELSE false END RETURN count(*)"),
        ("RETURN 14", f"{NOWHERE} RETURN sum(CASE WHEN c:City THEN 100 WHEN NOT c:City THEN 100 ELSE 1 END)"),
        ("RETURN 14", f"{NOWHERE} RETURN sum(CASE WHEN c:City IS NULL THEN 1 ELSE 100 END)"),
        (f"{KNOWN} RETURN count(r)", "MATCH ()-[r]->() RETURN count(CASE WHEN r:KNOWS THEN 1 END)"),
        (f"{KNOWN} RETURN 0, count(r)", f"{KNOWN} RETURN count(CASE WHEN NOT r:KNOWS THEN 1 END), count(r)"),
        (
            "MATCH (p:Person) RETURN count(p)",
            "MATCH (p) WITH collect(p) AS l RETURN size([x IN l WHERE CASE WHEN x:Person THEN true END])",
        ),
    ],
)
def test_labels_are_conditions_inside_case_too(written: str, answer: str) -> None:
    assert verdict(written, answer) == (True, "")


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("[4, 6]", "[x IN [1, 2, 3] WHERE x > 1 | x * 2]"),
        ("[2, 3]", "[x IN [1, 2, 3] WHERE x > 1 OR x = 7]"),
        ("[2, 4, 6]", "[x IN [1, 2, 3] | x * 2]"),
        ("[[20], []]", "[x IN [[1, 2], [1]] | [y IN x WHERE y > 1 | y * 10]]"),
        ("size([1, 2])", "size([x IN [1, 2]])"),
    ],
)
def test_lists_are_made_from_lists(written: str, answer: str) -> None:
    assert verdict(f"RETURN {written}", f"RETURN {answer}") == (True, "")


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("UNWIND [1, 2] AS y RETURN [1], y", "UNWIND [1, 2] AS x RETURN [x IN [1] | x], x"),
        # The list is read outside, its condition and its parts inside.
        (
            "RETURN [10], 1 UNION RETURN [3, 10], 2",
            "UNWIND [1, 2] AS x RETURN [x IN [x, 9] WHERE x > 1 | x + 1], x",
        ),
        ("RETURN [1]", "UNWIND [1] AS x RETURN [x IN [x]]"),
        ("RETURN [[1]]", "RETURN [x IN [[1]] | [x IN x | x]]"),
        ("RETURN [[2], [3]], 5", "WITH 5 AS x RETURN [x IN [[1, 2], [3]] | [x IN x WHERE x > 1 | x]], x"),
        ("RETURN [7], 2, 'x'", "WITH {x: 2} AS x RETURN [x IN [7] | {x: x}.x], x.x, 'x'"),
        ("RETURN true, false", "WITH [1] AS x RETURN any(x IN x WHERE x = 1), none(x IN x WHERE x = 1)"),
        ("RETURN true", "RETURN any(x IN [[1]] WHERE all(x IN x WHERE x = 1))"),
        (
            "RETURN 1, 2",
            "UNWIND [4, 5] AS x RETURN size([x IN [1] | x]), count(*) ORDER BY size([x IN [1] | x])",
        ),
        ("RETURN 6", "MATCH (p) WITH collect(p) AS p RETURN size([p IN p WHERE p:City])"),
    ],
)
def test_a_variable_of_a_list_hides_that_of_the_query(written: str, answer: str) -> None:
    assert verdict(written, answer) == (True, "")


@pytest.mark.parametrize("name", ["x", "X"])
def test_a_reason_has_the_names_of_the_query(name: str) -> None:
    said = verdict("RETURN 1", f"UNWIND [1] AS x WITH x, 2 AS X RETURN [{name} IN [[1]] | {name}.name]")
    start = f"Cypher: Binder exception: {name} has data type "
    assert not said[0] and said[1].startswith(start), said


def test_lists_are_made_from_collected_nodes() -> None:
    gold = "MATCH (p:Person) WHERE p.age > 40 RETURN collect(p.name)"
    made = "WITH [it IN all_of_them WHERE it:Person AND it.age > 40 | it.name] AS names"
    answer = f"MATCH (p) WITH collect(p) AS all_of_them {made} UNWIND names AS name RETURN collect(name)"
    assert verdict(gold, answer) == (True, "")


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (p:Person|City)-[r:KNOWS|LIVES_IN]->(:City {name: 'x'}) RETURN {a: p.name}",
        "MATCH (p:Person) RETURN [1, 2][0:1], [p.age IN [1]], {b: 1, c: p}",
        "MATCH (p:Person) WHERE any(x IN [1] WHERE x = p.age) AND p.age IN [1, 2] RETURN p",
        "MATCH (p:Person",
        "RETURN [x IN [1 WHERE x",
        "MATCH (p:A|B&C) WHERE p:A|B:C RETURN p",
    ],
)
def test_what_the_engine_reads_as_neo4j_does_stays_as_it_is(query: str) -> None:
    assert in_engine_forms(Query(query)) == query


def test_a_reference_whose_relationships_cannot_be_named_has_a_reason() -> None:
    said = judged_reference(SCORER, row("MATCH (p:Person)-[:KNOWS]-()-[:KNOWS]-(q) RETURN *"))
    assert said.correct and said.reason == "may use one relationship twice in a MATCH, as Neo4j does not"
    named = judged_reference(SCORER, row("MATCH (p:Person)-[a:KNOWS]-()-[b:KNOWS]-(q) RETURN *"))
    assert named.correct and not named.reason


def test_conditions_are_few() -> None:
    found = with_trails(Query(f"MATCH (){'--()' * 1_000} RETURN 1"))
    assert found.is_partial and "WHERE" not in found.text
    most = with_trails(Query(f"MATCH (){'--()' * MOST_RELATIONSHIPS} RETURN 1"))
    assert most.text.count("<>") == 105 and not most.is_partial


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("RETURN [p.id, p.age]", "RETURN [p.age, p.id]"),
        ("RETURN [min(p.age), max(p.age)]", "RETURN [max(p.age), min(p.age)]"),
        ("RETURN {id: p.age}", "RETURN {id: p.name}"),
        ("WITH collect(p.age) AS a UNWIND a AS q RETURN [q, 1]", "RETURN [1, p.age]"),
    ],
)
def test_lists_have_an_order_and_maps_may_have_an_id(gold: str, answer: str) -> None:
    assert verdict(f"MATCH (p:Person) {gold}", f"MATCH (p:Person) {gold}") == (True, "")
    assert not verdict(f"MATCH (p:Person) {gold}", f"MATCH (p:Person) {answer}")[0]


def test_collected_lists_have_no_order() -> None:
    gold = "MATCH (p:Person) WITH collect(p.age) AS ages RETURN {ages: ages, more: [1, 2]}"
    answer = "MATCH (p:Person) WITH p ORDER BY p.age LIMIT 99 RETURN {ages: collect(p.age), more: [1, 2]}"
    assert verdict(gold, answer) == (True, "")
    keys = [judged(SCORER, row(gold), it, with_result_key=True).result_key for it in (gold, answer)]
    assert keys[0] == keys[1] is not None
    union = "MATCH (p:Person) RETURN [1, 2] AS x UNION MATCH (p:Person) RETURN collect(p.age) AS x"
    assert verdict(union, union.replace("[1, 2]", "[2, 1]")) == (True, "")


def test_nodes_with_the_same_properties_are_equal() -> None:
    assert verdict("MATCH (p:Person) RETURN p, p.age", "MATCH (x:Person) RETURN x, x.age") == (True, "")


def test_properties_are_those_that_the_graph_describes() -> None:
    gold, answer = "MATCH (p:City) RETURN properties(p)", "MATCH (p:City) RETURN {name: p.name}"
    assert verdict(gold, answer) == verdict(answer, gold) == (True, "")


def test_a_reference_that_returns_relationships_does_not_depend_on_where_they_are_stored() -> None:
    said = judged_reference(SCORER, row("MATCH ()-[r:LIVES_IN]->() RETURN r ORDER BY r.since LIMIT 3"))
    assert said.correct and not said.reason
