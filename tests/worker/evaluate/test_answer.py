"""The answer is found among fences, labels and prose, by the same rule for every model."""

import time

import pytest

from expert_worker.evaluate.answer import SQL, amid_prose, json_text, statement, unfenced, without_thoughts
from expert_worker.evaluate.scorers.cypher import CYPHER, CypherScorer
from expert_worker.evaluate.scorers.json import JsonScorer
from expert_worker.evaluate.scorers.sql import SqlScorer
from expert_worker.evaluate.scorers.typescript import TypescriptScorer
from expert_worker.evaluate.verdict import Scorer


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


ONE = "SELECT name FROM t"


@pytest.mark.parametrize(
    "text",
    [
        f"`{ONE}`",
        f"**SQL:** {ONE}",
        f"**{ONE}**",
        f"**Query:** `{ONE}`.",
        f"> {ONE}",
        "> SELECT name FROM t;\n> It selects names.",
        f"> ```sql\n> {ONE}\n> ```",
        f"1. {ONE}",
        f"- {ONE}",
        f"### Answer\n{ONE}",
        f"<sql>{ONE}</sql>",
        f"<sql>\n{ONE}\n</sql>",
        f"~~~sql\n{ONE}\n~~~",
        f"{ONE}\nThis query doesn't return ids.",
        f"{ONE}\n**Note:** It's one column.",
        f"{ONE}\nExplanation of the query:\n- it returns names",
        f"<think>maybe: SELECT 1</think>\n{ONE}",
        f"<think>\nSELECT 1\n\nNo.\n</think>\n\n```sql\n{ONE}\n```",
        f"maybe: SELECT 1\n</think>\n\n{ONE}",
        f"1. Select the names\n2. from the table\n\n{ONE}",
    ],
)
def test_what_chat_models_put_around_a_statement_is_removed(text: str) -> None:
    assert SqlScorer().extract(text) == ONE
    graph = text.replace("SELECT", "RETURN").replace("Select", "Return").replace(" FROM t", "")
    assert CypherScorer().extract(graph) == ONE.replace("SELECT", "RETURN").replace(" FROM t", "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE b\n> 5",
        "SELECT a FROM t WHERE b = '\nThis is it.'",
        "SELECT a\n-- The name.\nFROM t",
        "SELECT a /* one\nThis is it.\n*/ FROM t",
        "SELECT '**a**', '</b>', '<think>' FROM t",
        "SELECT a FROM t\nWHERE b = = 1",
    ],
)
def test_what_only_looks_like_prose_or_marks_is_a_part_of_the_statement(text: str) -> None:
    assert SqlScorer().extract(text) == text


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a</think>b", "b"),
        ("a\n</think>\n\nb", "b"),
        ("<think>a", ""),
        ("a <think>b</think> c", "a <think>b</think> c"),
        ('{"a": "</think>"}', '{"a": "</think>"}'),
        ("a</think>", "a</think>"),
    ],
)
def test_thoughts_before_an_answer_are_removed(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer


def test_lines_of_prose_end_code() -> None:
    text = "Sure! Here it is:\n\nThe type of it.\n  type A = B;\n\nThis defines A.\n\nAnd it is B."
    assert list(amid_prose(text)) == [
        text[text.index("type A") :],
        "type A = B;",
        "type A = B;\n\nThis defines A.",
    ]
    assert list(amid_prose("Only prose here.")) == [""]


def test_hostile_prose_takes_no_time_that_grows_with_its_square() -> None:
    lines = "This is a line \n" * 6_000
    began = time.process_time()
    list(amid_prose(lines))
    list(amid_prose("A b." + "\nA b." * 20_000))
    statement(f"SELECT {lines}", SQL)
    statement("SELECT " + "A " * 50_000, SQL)
    json_text('{"a": 1} or [2]' * 6_000)
    assert time.process_time() - began < 5


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
    ("text", "code"),
    [
        ("x\n```", "x"),
        ("x\ny\n  ```  \n\nThis is x.", "x\ny"),
        ("x\n~~~\n### Question: y", "x"),
        ("It is x.\n```", "It is x."),
        ("It is x.\n```\nThis explains it.", "It is x."),
        ("Here it is:\n```\nx", "x"),
        ("Here it is:\n```\nIt is x.", "It is x."),
        ("This is the code.\n```\nx", "x"),
        ("Here it is:\n```", "Here it is:"),
        ("Here it is\n```\nx\n```\nDone.", "x"),
        ("Here it is\n```ts\nx", "x"),
    ],
)
def test_a_fence_that_nothing_opens_ends_the_answer(text: str, code: str) -> None:
    assert unfenced(text) == code


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n```",
        f"{ONE};\n```\n",
        f"{ONE}\n```\nThis query selects names.",
        f"{ONE}\n```\n\n### Question\nSelect the ids",
        f"Select the names:\n```\n{ONE}",
        f"Sure\n```\n{ONE}",
        f"With pleasure!\n{ONE}\n~~~",
    ],
)
def test_a_fence_that_nothing_opens_ends_a_statement(text: str) -> None:
    assert SqlScorer().extract(text) == ONE
    graph = text.replace("SELECT", "RETURN").replace("Select", "Return").replace(" FROM t", "")
    assert CypherScorer().extract(graph) == ONE.replace("SELECT", "RETURN").replace(" FROM t", "")


def test_a_fence_may_be_a_line_of_a_string() -> None:
    text = "SELECT '\n```\n' AS x FROM t"
    assert SqlScorer().extract(text) == text


@pytest.mark.parametrize("scorer", [TypescriptScorer(), JsonScorer()])
@pytest.mark.parametrize(
    "around", ["%s\n```", "%s\n```\nexplained", "Sure, it is\n```\n%s", "This is it.\n%s\n```"]
)
def test_a_parser_knows_on_which_side_of_a_fence_the_answer_is(scorer: Scorer, around: str) -> None:
    text = '[{"a": 1}]'
    assert scorer.extract(around % text) == text


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
        ('<think>{"a": 2}</think>{"a": 1}', '{"a": 1}'),
        ('`"x"`', '"x"'),
        ('<json>{"a": 1}</json>', '{"a": 1}'),
        ('Here are 2 items [2]:\n{"a": 1}', '{"a": 1}'),
        ("See [2] and [3]", "[2] and [3]"),
        ('{"a": 1}\nAgain: {"a":  1}', '{"a": 1}'),
        ('{"a": 1, "b": 2} or {"b": 2, "a": 1}', '{"a": 1, "b": 2}'),
        ('{"a": 1} or {"a": 2}', '{"a": 1} or {"a": 2}'),
        ('It is:\n{"a": 1}\n{"a": 2}\nDone', '{"a": 1}\n{"a": 2}'),
        ('{"a": 1},\n{"a": 1},\n{"a": 2}', '{"a": 1},\n{"a": 1},\n{"a": 2}'),
        ('{"a": 1}\nText: b\n{"a": 2}', '{"a": 1}'),
        ('{"a": 1}\n\n{"a": 2}', '{"a": 1}'),
        ('```json\n{"a": 1}\n```\nor {"a": 2}', '{"a": 1}'),
    ],
)
def test_json_is_cut_out(text: str, answer: str) -> None:
    assert json_text(text) == answer


def test_a_megabyte_is_looked_at_only_in_part() -> None:
    assert len(unfenced("x" * 1_000_000)) == 100_000
