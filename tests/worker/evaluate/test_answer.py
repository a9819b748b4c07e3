"""The answer is found among fences, labels and prose, by the same rule for every model."""

import pytest

from expert_worker.evaluate.answer import SQL, json_text, statement, unfenced
from expert_worker.evaluate.scorers.cypher import CYPHER, CypherScorer
from expert_worker.evaluate.scorers.sql import SqlScorer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELECT 1", "SELECT 1"),
        ("select 1 ;", "select 1"),
        ("```sql\nSELECT 1;\n```\nThis selects one.", "SELECT 1"),
        ("The query is: SELECT 1\n\nIt selects one.", "SELECT 1"),
        (
            "Sure!\nWITH a AS (SELECT ';' AS x) SELECT x FROM a; SELECT 2",
            "WITH a AS (SELECT ';' AS x) SELECT x FROM a",
        ),
        ("You can select rows with a query.", ""),
        ("", ""),
        ("```\nSELECT 1", "SELECT 1"),
    ],
)
def test_a_statement_is_cut_out(text: str, answer: str) -> None:
    assert statement(text, SQL) == answer


WITH_PART = "WITH a AS (SELECT 1 AS x)"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"{WITH_PART}\n\nSELECT x FROM a\n\nIt selects x.", f"{WITH_PART}\n\nSELECT x FROM a"),
        (
            f"{WITH_PART}\n\n, b AS (SELECT 2)\nSELECT x FROM a",
            f"{WITH_PART}\n\n, b AS (SELECT 2)\nSELECT x FROM a",
        ),
        ("SELECT 1\n\nUNION ALL\n\nSELECT 2\n\nSELECT 3", "SELECT 1\n\nUNION ALL\n\nSELECT 2"),
        ("SELECT x\n \nFROM a", "SELECT x\n \nFROM a"),
        ("SELECT x FROM a\n\nFrom this you see x.", "SELECT x FROM a"),
        ("SELECT x FROM (\n\nSELECT 1 AS x)", "SELECT x FROM (\n\nSELECT 1 AS x)"),
        ("SELECT x -- don't; do\nFROM a; SELECT 2", "SELECT x -- don't; do\nFROM a"),
        ("SELECT x /* ; */ FROM a", "SELECT x /* ; */ FROM a"),
        ("/* all; */ SELECT x FROM a", "SELECT x FROM a"),
        ("-- all\nSELECT x FROM a", "SELECT x FROM a"),
        ("((SELECT x FROM a));", "SELECT x FROM a"),
        ("(SELECT 1) + (SELECT 2)", "(SELECT 1) + (SELECT 2)"),
        ("VALUES (1), (2)", "VALUES (1), (2)"),
        ("Values are selected:\nSELECT 1", "SELECT 1"),
        ("SELECT 'a ```sql' AS x", "SELECT 'a ```sql' AS x"),
    ],
)
def test_a_statement_goes_to_its_end(text: str, answer: str) -> None:
    assert statement(text, SQL) == answer


def test_a_graph_query_goes_to_its_end() -> None:
    query = "MATCH (a)--(b)\n\nWHERE a.x = 1\n\nRETURN b\n\nORDER BY b.x"
    assert statement(f"{query}\n\nReturn is last.", CYPHER) == query
    assert statement("MATCH (a) RETURN a\n\nMATCH (b) RETURN b", CYPHER) == "MATCH (a) RETURN a"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("With the table t you can do this:\n\nSELECT name FROM t;", "SELECT name FROM t"),
        ("With pleasure!\nSELECT name FROM t", "SELECT name FROM t"),
        ("Select each name from Bob's table: SELECT name FROM t", "SELECT name FROM t"),
        (
            "With this you get it:\n\nWITH a AS (SELECT 1 AS x)\n\nSELECT x FROM a",
            f"{WITH_PART}\n\nSELECT x FROM a",
        ),
        ("With a table:\n\nSELECT FROM WHERE", "With a table:\n\nSELECT FROM WHERE"),
        ("SELECT name FROM (\n\nSELECT name FROM t", "SELECT name FROM (\n\nSELECT name FROM t"),
        ("SELECT name FORM t\nWHERE x = 1", "SELECT name FORM t\nWHERE x = 1"),
        (
            "SELECT a FROM t ORDER BY a\nUNION\nSELECT b FROM t",
            "SELECT a FROM t ORDER BY a\nUNION\nSELECT b FROM t",
        ),
    ],
)
def test_prose_may_begin_with_a_keyword(text: str, answer: str) -> None:
    assert SqlScorer().extract(text) == answer


@pytest.mark.parametrize(
    "prose",
    [
        "Match the person to the city:\n\n",
        "With this:\n",
        "Return each person's name. Here is the query:\n",
        "With pleasure!\n",
    ],
)
def test_prose_before_a_graph_query_may_begin_with_a_keyword(prose: str) -> None:
    query = "MATCH (p:Person)\n\nRETURN p.name"
    assert CypherScorer().extract(f"{prose}{query}") == query
    for whole in (
        "WITH 1 AS x\n\nMATCH (p) RETURN p",
        "MATCH p = (a)-->(b)\n\nRETURN p",
        "UNWIND xs AS x\n\nRETURN x",
        "RETURN DISTINCT a ORDER BY a",
    ):
        assert CypherScorer().extract(whole) == whole


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```ts\nconst x = 1\n```\nDone.", "const x = 1"),
        ("Here: ```\nx\n```", "x"),
        ("It is ```x y``` here", "y"),
        ("```\nx```", "x"),
        ("```\nx``` and y", "x"),
        ("```\na = '```'\n```", "a = '```'"),
        ("```\n```", ""),
        ("const s = '```js';", "const s = '```js';"),
    ],
)
def test_a_fence_is_a_line_or_stands_alone(text: str, code: str) -> None:
    assert unfenced(text) == code


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('Here: {"a": "}"} done', '{"a": "}"}'),
        ("```json\n[1, {}]\n```", "[1, {}]"),
        ('{"a": "\\"}"} trailing', '{"a": "\\"}"}'),
        ('{"a": [1', '{"a": [1'),
        ('Here is [the] result: {"a": 1}', '{"a": 1}'),
        ("In {braces} and [brackets]: [1]", "[1]"),
        ('{"a": [1}', '{"a": [1}'),
        ('{"a": [1, 2], b}', '{"a": [1, 2], b}'),
        ("nothing here", "nothing here"),
        ("12", "12"),
        ('the answer is {"a": 1}', '{"a": 1}'),
        ('3 items: {"a": 1}', '{"a": 1}'),
        ('"the {x}"', '"the {x}"'),
        ('{"md": "see ```js\\nx\\n```"}', '{"md": "see ```js\\nx\\n```"}'),
        ("truly nothing", "truly nothing"),
    ],
)
def test_json_is_cut_out(text: str, answer: str) -> None:
    assert json_text(text) == answer


def test_a_megabyte_is_looked_at_only_in_part() -> None:
    assert len(unfenced("x" * 1_000_000)) == 100_000
