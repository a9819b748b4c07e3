"""Cypher is right when it returns the right rows, and reaches the engine only when it is a question."""

from typing import Any

import pytest

from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers.cypher import CypherScorer, is_ordered
from expert_worker.evaluate.scorers.cypher_guard import refusal

PERSON = [["name", "name", ["Ada", "Bo", "Cy"]], ["age", "int", 18, 90, False], ["born", "date", False]]
TEAM = ["team", "cat", ["blue", "green", "red"]]
SINCE = ["since", "int", 1960, 2024, False]
GRAPH: dict[str, Any] = {
    "nodes": [
        {"label": "Person", "count": 14, "columns": PERSON},
        {"label": "City", "count": 6, "columns": [["name", "name", ["Oslo", "Rome"]]]},
    ],
    "edges": [
        {
            "type": "LIVES_IN",
            "from": "Person",
            "to": "City",
            "columns": [SINCE],
        },
        {"type": "KNOWS", "from": "Person", "to": "Person", "columns": []},
    ],
}
SCORER = CypherScorer()


def verdict(gold: str, answer: str, graph: Any = GRAPH) -> tuple[bool, str]:
    said = judged(SCORER, {"graph": graph, "seed": "1", "completion": gold}, answer)
    return said.correct, said.reason


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (
            "MATCH (p:Person) WHERE p.age > 40 RETURN p.name",
            "MATCH (x:Person) WHERE 40 < x.age RETURN x.name",
        ),
        (
            "MATCH (p:Person)-[:LIVES_IN]->(c:City) RETURN c.name, count(p)",
            "```cypher\nMATCH (c:City)<-[:LIVES_IN]-(p:Person)\nRETURN c.name, count(*);\n```",
        ),
        (
            "MATCH (p:Person) WHERE NOT EXISTS { MATCH (p)-[:KNOWS]->(o:Person) } RETURN p.name",
            "MATCH (p:Person) WHERE NOT (p)-[:KNOWS]->() RETURN p.name",
        ),
        ("MATCH (p:Person) RETURN avg(p.age)", "MATCH (p:Person) RETURN sum(p.age) * 1.0 / count(p)"),
    ],
)
def test_another_wording_of_the_same_question_is_right(gold: str, answer: str) -> None:
    assert verdict(gold, answer) == (True, "")


def test_whole_numbers_are_compared_exactly() -> None:
    assert not verdict("RETURN 1234567890123", "RETURN 1234567890999")[0]
    assert verdict("RETURN 1234567890123", "RETURN 1234567890123.0") == (True, "")
    assert verdict("RETURN [3, 0.3]", "RETURN [2.9999999999999996, 0.1 + 0.2]") == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("count(CASE WHEN p.age > 40 THEN 1 END)", "sum(CASE WHEN p.age > 40 THEN 1 ELSE 0 END)"),
        ("sum(p.age)", "sum(p.age + 0.0)"),
        ("[count(p)], {people: count(p)}", "[sum(1)], {people: sum(1)}"),
    ],
)
def test_a_sum_of_whole_numbers_is_a_whole_number(gold: str, answer: str) -> None:
    assert verdict(f"MATCH (p:Person) RETURN {gold}", f"MATCH (p:Person) RETURN {answer}") == (True, "")
    said = verdict("RETURN 7", "RETURN sum(8)")
    assert said == (False, "the row [8] instead of [7]")


def test_the_result_key_is_that_of_the_returned_rows() -> None:
    row = {"graph": GRAPH, "seed": "1", "completion": "MATCH (p:Person) RETURN p.age"}
    plain, again, ordered, other, failed, refused = (
        judged(SCORER, row, answer, with_result_key=True).result_key
        for answer in (
            "MATCH (p:Person) RETURN p.name",
            "MATCH (x:Person) WHERE x.age > 0 RETURN x.name",
            "MATCH (p:Person) RETURN p.name ORDER BY p.name",
            "MATCH (p:Person) RETURN p.age",
            "MATCH (p:Nothing) RETURN p.nothing",
            "MATCH (p:Person) DELETE p",
        )
    )
    assert plain == again and len({plain, ordered, other}) == 3 and None not in (plain, ordered, other)
    assert failed is None and refused is None


def test_a_missing_condition_and_a_wrong_direction_are_seen() -> None:
    gold = "MATCH (p:Person)-[:LIVES_IN]->(c:City) WHERE p.age > 40 RETURN p.name"
    assert not verdict(gold, "MATCH (p:Person)-[:LIVES_IN]->(c:City) RETURN p.name")[0]
    assert not verdict(gold, "MATCH (p:Person)<-[:LIVES_IN]-(c:City) WHERE p.age > 40 RETURN p.name")[0]


def test_order_matters_only_in_the_last_return() -> None:
    assert is_ordered("MATCH (p:Person) RETURN p.name ORDER BY p.age")
    assert not is_ordered("MATCH (p:Person) WITH p ORDER BY p.age LIMIT 2 RETURN p.name")
    gold = "MATCH (p:Person) RETURN p.name ORDER BY p.age"
    assert not verdict(gold, "MATCH (p:Person) RETURN p.name ORDER BY p.age DESC")[0]
    assert verdict("MATCH (p:Person) RETURN p.name", gold)[0]


TIED = {**GRAPH, "nodes": [{"label": "Person", "count": 14, "columns": [*PERSON, TEAM]}, *GRAPH["nodes"][1:]]}


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("RETURN p.team ORDER BY p.team", "RETURN p.team ORDER BY p.team ASC"),
        # Fourteen people are in three teams, so the age decides, or nothing does.
        ("RETURN p.age ORDER BY p.team", "RETURN p.age ORDER BY p.team, p.age"),
        ("RETURN p.age AS team ORDER BY p.team DESC", "RETURN p.age ORDER BY p.team DESCENDING, p.age DESC"),
        ("RETURN p.age ORDER BY p.team LIMIT 3", "RETURN p.age ORDER BY p.team, p.age DESC LIMIT 3"),
        (
            "RETURN p.age ORDER BY p.team SKIP 2 LIMIT 4",
            "RETURN p.age ORDER BY p.team, p.age DESC SKIP 2 LIMIT 4",
        ),
        (
            "RETURN p.team, p.age AS years ORDER BY p.team",
            "RETURN p.team, p.age ORDER BY p.team, p.age DESC",
        ),
    ],
)
def test_rows_with_equal_sort_keys_may_stand_in_any_order(gold: str, answer: str) -> None:
    assert verdict(f"MATCH (p:Person) {gold}", f"MATCH (p:Person) {answer}", TIED) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("RETURN p.team ORDER BY p.team", "RETURN p.team ORDER BY p.team DESC"),
        ("RETURN p.age ORDER BY p.team", "RETURN p.age ORDER BY p.age"),
        ("RETURN p.age ORDER BY p.team, p.age", "RETURN p.age ORDER BY p.team, p.age DESC"),
        ("RETURN p.age ORDER BY p.team LIMIT 3", "RETURN p.age ORDER BY p.team DESC LIMIT 3"),
        ("RETURN p.age ORDER BY p.team LIMIT 3", "RETURN p.age ORDER BY p.team LIMIT 2"),
        ("RETURN p.team, count(p) AS n ORDER BY n DESC", "RETURN p.team, count(p) AS n ORDER BY n"),
        ("RETURN DISTINCT p.team ORDER BY p.team", "RETURN DISTINCT p.team ORDER BY p.team DESC"),
    ],
)
def test_another_order_is_wrong(gold: str, answer: str) -> None:
    said = verdict(f"MATCH (p:Person) {gold}", f"MATCH (p:Person) {answer}", TIED)
    assert not said[0] and " instead of " in said[1]


def test_a_limit_may_keep_any_of_several_with_equal_counts() -> None:
    match = "MATCH (p:Person)-[:LIVES_IN]->(c:City)"
    gold = f"{match} WITH p, count(c) AS n RETURN p.age ORDER BY n DESC LIMIT 3"
    answer = f"{match} WITH p, count(c) AS homes RETURN p.age ORDER BY homes DESC, p.age DESC LIMIT 3"
    assert verdict(gold, answer, TIED) == (True, "")
    assert not verdict(gold, answer.replace("homes DESC", "homes"), TIED)[0]


REFUSED = [
    "LOAD FROM '/etc/passwd' (file_format='csv') RETURN *",
    "MATCH (p:Person) RETURN p.name; COPY Person TO 'out.csv'",
    "MATCH (p:Person) WITH p LOAD FROM 'x.csv' RETURN *",
    "EXPORT DATABASE 'out'",
    "MATCH (n) IMPORT DATABASE 'x' RETURN n",
    "RETURN 1 INSTALL httpfs",
    "WITH 1 AS a ATTACH 'x.db' AS y RETURN a",
    "MATCH (p:Person) CALL show_tables() RETURN *",
    "WITH 1 AS a CALL timeout=0 RETURN a",
    "WITH 1 AS a call TIMEOUT=0 RETURN a",
    "MATCH (p:Person) DETACH DELETE p",
    "MATCH (p:Person) SET p.age = 1 RETURN p",
    "MATCH (p:Person) CREATE (:City {id: 99}) RETURN 1",
    "MATCH (p:Person) MERGE (c:City {id: 98}) RETURN c",
    "RETURN 'a\\' LOAD FROM '",
    "RETURN `LOAD` FROM 'x'",
    "RETURN 1 /* ' */ LOAD FROM 'x' // '",
    "RETURN 'open",
    "RETURN 1. CALL show_tables()",
    "WITH 1 AS a RETURN {a: CALL show_tables()}",
    "MATCH (p:CALL show_tables()) RETURN p",
    "MATCH (p:LOAD FROM 'x.csv') RETURN p",
    "MATCH (p:Person) WITH p AS with SET p.age = 1 RETURN 1",
    "MATCH (p:Person) WHERE p.in SET p.age = 1 RETURN 1",
    "MATCH (p:Person) WITH * SET p.age = 1 RETURN 1",
    "MATCH (p:Person) WITH p AS call RETURN 1",
    "MATCH (load) FROM 'x.csv' RETURN *",
    "RETURN glob('*')",
    "RETURN \x00 1",
    "RETURN " + "1 + " * 300_000 + "1",
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_only_questions_reach_the_engine(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: Any) -> Any:
        raise AssertionError("the engine was asked")

    monkeypatch.setattr(CypherScorer, "ask", reached)
    row = {"graph": GRAPH, "seed": "1", "completion": "MATCH (p:Person) RETURN p.name"}
    said = SCORER.judge(row, REFUSED[place])
    assert not said.correct
    assert said.reason == " ".join((refusal(REFUSED[place]) or "").split())


@pytest.mark.parametrize(
    "harmless",
    [
        "MATCH (p:Person) WHERE p.name = 'CALL' RETURN p",
        "MATCH (a)-->(b)<--(c)--(d) RETURN a.type",
        "MATCH (a:Project {open: true})-[:FROM|TO*1..2]->(:Comment)<-[r:USE]-(b:Database) RETURN a.name",
    ],
)
def test_words_in_strings_and_names_are_harmless(harmless: str) -> None:
    assert refusal(harmless) is None


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (project:Person) RETURN project.name",
        "MATCH (set:Person {name: 'Ada'})-[use:KNOWS]->(to) WHERE to.age > 1 RETURN count(DISTINCT set)",
        "MATCH (from:Person)-->(to:City) RETURN from.name AS use, to.name ORDER BY use DESC",
        "MATCH (p:Person) WITH p.name AS type, count(*) AS project WHERE project > 0 RETURN type, project",
        "MATCH (p:Person) RETURN {type: p.name, comment: p.age}",
        "MATCH (p:Person) RETURN collect(p.name) AS comment",
    ],
)
def test_ordinary_names_are_not_taken_as_clauses(query: str) -> None:
    assert verdict(query, query) == (True, "")


ENDLESS = [
    "UNWIND range(1, 1000000000) AS x RETURN count(x)",
    "MATCH (a:Person), (b:Person), (c:Person), (d:Person), (e:Person), (f:Person), (g) RETURN count(*)",
    "MATCH (a:Person)-[:KNOWS*1..30]-(b:Person) RETURN count(*)",
    "UNWIND range(1, 9000) AS x RETURN x",
]


def test_endless_questions_end() -> None:
    row = {"graph": GRAPH, "seed": "1", "completion": "MATCH (p:Person) RETURN p.name"}
    answers = [answer for endless in ENDLESS for answer in (endless, row["completion"])]
    found = judge_all("cypher", [row] * len(answers), answers)
    assert [said.correct for said in found] == [False, True] * len(ENDLESS)


def test_numbers_and_booleans_have_their_types_and_a_node_may_have_many_relationships() -> None:
    columns = [["ram", "cat", [8, 16], False], ["load", "number", 0, 9, 0.5, False], ["up", "bool", True]]
    graph = {
        "nodes": [{"label": "Host", "count": 12, "columns": columns}],
        "edges": [{"type": "CALLS", "from": "Host", "to": "Host", "columns": [], "most": 6}],
    }
    rows = SCORER.ask(graph, "1", "MATCH (h:Host) RETURN h.ram, h.load, h.up")
    assert {ram for ram, _, _ in rows} == {8, 16}
    assert len({load for _, load, _ in rows}) == 12 and all(load % 0.5 == 0 for _, load, _ in rows)
    assert {up for _, _, up in rows} == {True, False, None}
    counts = SCORER.ask(graph, "1", "MATCH (h:Host)-[:CALLS]->(o:Host) RETURN h.load, count(o)")
    assert max(count for _, count in counts) > 2
