"""SQL is right when it returns the right rows on every database, and harmless whatever it says."""

import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers.sql import SqlScorer, is_ordered, query
from expert_worker.evaluate.scorers.sql_data import build, ddl

SHIPS = [["id", "key"], ["name", "name", ["Argo", "Nova"]], ["flag", "cat", ["Malta", "Japan"], False]]
CARGOES = [
    ["id", "key"],
    ["ship_id", "ref", "ships"],
    ["weight", "int", 1, 500, True],
    ["loaded", "date", False],
]
SCHEMA = [
    {"table": "ships", "rows": 9, "columns": SHIPS},
    {"table": "cargoes", "rows": 24, "columns": CARGOES},
]


def row(sql: str) -> dict[str, object]:
    return {"schema": SCHEMA, "seed": "7", "completion": sql}


def verdict(gold: str, answer: str) -> tuple[bool, str]:
    said = judged(SqlScorer(), row(gold), answer)
    return said.correct, said.reason


def test_another_wording_of_the_same_question_is_right() -> None:
    gold = "SELECT name FROM ships WHERE id IN (SELECT ship_id FROM cargoes)"
    query = "SELECT DISTINCT s.name FROM ships s JOIN cargoes c ON s.id = c.ship_id GROUP BY s.id;"
    other = f"Here is it:\n```sql\n{query}\n```"
    assert verdict(gold, other) == (True, "")


def test_a_missing_condition_is_seen() -> None:
    correct, reason = verdict("SELECT id FROM cargoes WHERE weight > 250", "SELECT id FROM cargoes")
    assert not correct
    assert "24 rows instead of" in reason


def test_order_matters_only_where_it_was_asked_for() -> None:
    assert verdict("SELECT id FROM ships", "SELECT id FROM ships ORDER BY id DESC")[0]
    assert not verdict("SELECT id FROM ships ORDER BY id", "SELECT id FROM ships ORDER BY id DESC")[0]


def test_an_order_that_was_asked_for_is_not_a_matter_of_luck() -> None:
    """Rows often come out in the order in which they were stored, which is that of their keys."""
    assert verdict("SELECT id FROM ships ORDER BY id", "SELECT id FROM ships ORDER BY id ASC")[0]
    assert not verdict("SELECT id FROM ships ORDER BY id", "SELECT id FROM ships")[0]


KEYED = "CREATE TABLE ships(id INTEGER PRIMARY KEY, name TEXT, flag TEXT);" + ddl(SCHEMA).splitlines()[1]


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("SELECT name FROM ships ORDER BY id", "SELECT name FROM ships", False),
        ("SELECT name FROM ships ORDER BY id", "SELECT name FROM ships ORDER BY id", True),
        ("SELECT name FROM ships", "SELECT name FROM ships WHERE id > 0", True),
        (
            "SELECT flag, COUNT(*) FROM ships GROUP BY flag",
            "SELECT flag, COUNT(id) FROM ships GROUP BY 1",
            True,
        ),
        # A reference that depends on the order itself.
        ("SELECT name FROM ships LIMIT 3", "SELECT name FROM ships WHERE id > 0 LIMIT 3", True),
    ],
)
def test_an_order_is_not_that_of_an_integer_primary_key(gold: str, answer: str, is_right: bool) -> None:
    said = judged(SqlScorer(), {**row(gold), "ddl": KEYED}, answer)
    assert said.correct == is_right, said.reason


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("SELECT city, COUNT(*) FROM people GROUP BY city ORDER BY city",
         "SELECT city, COUNT(*) FROM people GROUP BY city", False),
        ("SELECT DISTINCT city FROM people ORDER BY 1", "SELECT city FROM people GROUP BY city", False),
        ("SELECT city FROM people GROUP BY city ORDER BY city",
         "SELECT city -- ORDER BY city\nFROM people GROUP BY city", False),
        ("SELECT city FROM people GROUP BY city ORDER BY city",
         "SELECT * FROM (SELECT city FROM people GROUP BY city ORDER BY city)", True),
        ("SELECT city FROM people GROUP BY city",
         "SELECT DISTINCT city FROM people", True),
        # Of one row, or of equal keys, an order says nothing.
        ("SELECT MIN(city) FROM people ORDER BY 1", "SELECT MIN(city) FROM people", True),
        ("SELECT city FROM people GROUP BY city ORDER BY COUNT(*) > 0",
         "SELECT city FROM people GROUP BY city", True),
    ],
)  # fmt: skip
def test_groups_that_sqlite_sorts_by_chance_are_not_ordered(gold: str, answer: str, is_right: bool) -> None:
    said = judged(SqlScorer(), {"schema": TIED, "seed": "1", "completion": gold}, answer)
    assert said.correct == is_right, said.reason
    assert is_right or said.reason.startswith("no ORDER BY")


NAMED = ["name", "name", [f"n{place}" for place in range(12)]]
TIED = [{"table": "people", "rows": 12, "columns": [["id", "key"], NAMED, ["city", "cat", ["Rome", "Oslo"]]]}]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("SELECT name FROM people ORDER BY city", "SELECT name FROM people ORDER BY city, name DESC"),
        ("SELECT name, city FROM people ORDER BY 2", "SELECT name, city FROM people ORDER BY city, name"),
        (
            "SELECT name, city c FROM people ORDER BY c DESC",
            "SELECT name, city FROM people ORDER BY city DESC, 1",
        ),
        (
            "SELECT name FROM people ORDER BY lower(city) -- of each",
            "SELECT name FROM people ORDER BY city, id",
        ),
        (
            "SELECT name -- '\nFROM people ORDER BY city DESC /* Rome first */, 'x' -- of each",
            "SELECT name FROM people ORDER BY city DESC, id DESC",
        ),
        (
            'SELECT city AS "c", COUNT(*) > 0 AS k FROM people GROUP BY city ORDER BY k',
            "SELECT city, COUNT(*) > 0 FROM people GROUP BY city ORDER BY city DESC",
        ),
        (
            "WITH p AS (SELECT * FROM people)\n\nSELECT name FROM p ORDER BY city DESC NULLS LAST, city",
            "SELECT name FROM people ORDER BY city DESC, id DESC",
        ),
        (
            "SELECT name FROM people ORDER BY city LIMIT 3",
            "SELECT name FROM people ORDER BY city, id DESC LIMIT 3",
        ),
        (
            "SELECT id FROM people ORDER BY city LIMIT 4 OFFSET 2",
            "SELECT id FROM people ORDER BY city, id DESC LIMIT 2, 4",
        ),
    ],
)
def test_rows_with_equal_sort_keys_may_stand_in_any_order(gold: str, answer: str) -> None:
    tied = {"schema": TIED, "seed": "1", "completion": gold}
    said = judged(SqlScorer(), tied, answer)
    assert (said.correct, said.reason) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        (
            "SELECT city FROM people ORDER BY city",
            "SELECT city FROM people ORDER BY city DESC",
            "row 1 is ('Rome',)",
        ),
        (
            "SELECT name FROM people ORDER BY city LIMIT 3",
            "SELECT name FROM people ORDER BY city DESC LIMIT 3",
            "row 1",
        ),
        (
            "SELECT name FROM people ORDER BY city",
            "SELECT 'n1' FROM people ORDER BY city",
            "row 1 is ('n1',) instead of ('n0',)",
        ),
        (
            "SELECT id FROM people ORDER BY city, id",
            "SELECT id FROM people ORDER BY city, id DESC",
            "row 1 is",
        ),
        # The name of a result column, which another column has too.
        (
            "SELECT id AS city FROM people ORDER BY city + 0",
            "SELECT id FROM people ORDER BY id DESC",
            "row 1 is (12,)",
        ),
        ("SELECT DISTINCT name FROM people ORDER BY city", "SELECT name FROM people ORDER BY id", "row"),
        (
            "SELECT id FROM people UNION SELECT 99 ORDER BY 1",
            "SELECT id FROM people UNION SELECT 99 ORDER BY 1 DESC",
            "row 1",
        ),
        ("SELECT id FROM people", "SELECT id + 1 FROM people", "the row (13,) instead of (1,)"),
    ],
)
def test_the_first_other_row_is_named(gold: str, answer: str, reason: str) -> None:
    said = judged(SqlScorer(), {"schema": TIED, "seed": "1", "completion": gold}, answer)
    assert not said.correct and reason in said.reason, said.reason


def test_an_order_inside_parentheses_orders_a_part() -> None:
    assert not is_ordered("SELECT RANK() OVER (PARTITION BY (a) ORDER BY b) FROM t")
    assert not is_ordered("SELECT ' order by ' FROM t")
    assert is_ordered("SELECT (a) FROM t\nORDER  BY (b)")


def test_numbers_are_compared_as_numbers() -> None:
    assert verdict("SELECT COUNT(*) FROM ships", "SELECT COUNT(*) * 1.0 FROM ships")[0]
    assert not verdict("SELECT COUNT(*) FROM ships", "SELECT COUNT(*) || '' FROM ships")[0]


@pytest.mark.parametrize(
    ("gold", "answer", "is_same"),
    [
        ("SELECT 1234567890123", "SELECT 1234567890999", False),
        ("SELECT 1234567890123", "SELECT 1234567890123.0", True),
        ("SELECT 9007199254740993", "SELECT 9007199254740992", False),
        ("SELECT 0.1 + 0.2", "SELECT 0.3", True),
        ("SELECT 3", "SELECT 2.9999999999999996", True),
        ("SELECT 1e17", "SELECT 1.0000000000000002e17", True),
        ("SELECT 0.123456789", "SELECT 0.123456788", False),
    ],
)
def test_whole_numbers_are_compared_exactly_and_others_to_nine_digits(
    gold: str, answer: str, is_same: bool
) -> None:
    assert verdict(gold, answer)[0] is is_same


def test_prose_without_a_query_is_not_an_answer() -> None:
    assert verdict("SELECT id FROM ships", "I think you should select all ships.") == (
        False,
        "no SQL in the answer",
    )


def test_the_same_seed_makes_the_same_database() -> None:
    one, two = (query(build(SCHEMA, "3/1"), "SELECT * FROM cargoes") for _ in range(2))
    assert one == two
    assert one != query(build(SCHEMA, "3/2"), "SELECT * FROM cargoes")
    assert sorted(one) == query(build(SCHEMA, "3/1", reverse=True), "SELECT * FROM cargoes ORDER BY id")


def test_numbers_never_repeat_and_some_keys_are_never_referred_to() -> None:
    weights = query(build(SCHEMA, "1"), "SELECT weight FROM cargoes WHERE weight IS NOT NULL")
    assert len(weights) == len(set(weights))
    assert query(
        build(SCHEMA, "1"), "SELECT COUNT(*) FROM ships WHERE id NOT IN (SELECT ship_id FROM cargoes)"
    ) != [(0,)]
    assert ",ship_id INT" in ddl(SCHEMA)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        ("SELECT 1; ATTACH DATABASE 'stolen.db' AS x", "rows"),
        ("WITH a AS (SELECT 1) INSERT INTO ships VALUES (99, 'x', 'y')", "not authorized"),
        ("WITH a AS (SELECT 1) DELETE FROM ships", "not authorized"),
        ("SELECT load_extension('/tmp/evil.so')", "not authorized"),
        ("SELECT readfile('/etc/passwd')", "no such function"),
        ("SELECT * FROM pragma_database_list", "not authorized"),
        ("SELECT * FROM pragma_table_info('ships')", "not authorized"),
        (ENDLESS + "COUNT(*) FROM n", "interrupted"),
        (ENDLESS + "i FROM n", "more than 5000 rows"),
        (
            "SELECT COUNT(*) FROM cargoes a, cargoes b, cargoes c, cargoes d, cargoes e, cargoes f",
            "interrupted",
        ),
        ("SELECT zeroblob(1000000000)", "not authorized"),
        ("SELECT printf('%900000000d', 1)", "rows"),
        ("SELECT replace(hex(printf('%99999d', 1)), '2', 'aaaaaaaaaaaaaaaa')", "too big"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500, "SQLite"),
        ("SELECT " + "1," * 300_000 + "1", "too long"),
        ("SELECT '" + "x" * 3_000_000, "too long"),
        ("SELECT \x00 FROM ships", "SQLite"),
        ("SELECT \ud800", "SQLite"),
    ],
)
def test_hostile_sql_is_refused(hostile: str, reason: str) -> None:
    correct, said = verdict("SELECT id FROM ships", hostile)
    assert not correct
    assert reason in said


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE 'stolen.db' AS x",
        "PRAGMA writable_schema = 1",
        "PRAGMA temp_store_directory = '.'",
        "VACUUM INTO 'copy.db'",
        "CREATE TABLE mine (x)",
        "UPDATE ships SET name = 'x'",
        "DROP TABLE ships",
        "SELECT load_extension('evil')",
        "SELECT * FROM ships; ATTACH DATABASE 'stolen.db' AS x",
    ],
)
def test_the_engine_itself_refuses_what_no_question_is(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where a statement got past the extraction of the answer."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((sqlite3.Error, sqlite3.Warning)):
        query(build(SCHEMA, "1"), statement)
    assert not list(tmp_path.iterdir())


def test_a_row_may_bring_its_own_statements() -> None:
    """Types, keys, quoted names and comments as people write them."""
    columns = [
        ["id", "key"],
        ["unit price", "number", 0.5, 9, 0.5, False],
        ["paid", "bool", True],
        ["at", "datetime", False],
        ["boss", "ref", "order lines", True],
    ]
    statement = """CREATE TABLE "order lines" (
        id INTEGER PRIMARY KEY, -- counts up
        "unit price" DECIMAL(6,2) NOT NULL CHECK ("unit price" > 0),
        paid BOOLEAN,
        at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        boss INT REFERENCES "order lines" (id));
        CREATE INDEX by_price ON "order lines" ("unit price");"""
    schema = [{"table": "order lines", "rows": 18, "columns": columns}]
    said = {"schema": schema, "seed": "1", "ddl": statement}
    gold = 'SELECT id FROM "order lines" WHERE paid = 1 AND "unit price" > 2'
    assert judged(SqlScorer(), {**said, "completion": gold}, gold).correct
    assert not judged(SqlScorer(), {**said, "completion": gold}, gold[:-4]).correct
    rows = query(build(schema, "1/0", statements=statement), 'SELECT * FROM "order lines"')
    assert sorted(row[1] for row in rows) == [step / 2 for step in range(1, 19)]
    assert {row[2] for row in rows} == {None, 0, 1}
    assert all(datetime.strptime(row[3], "%Y-%m-%d %H:%M:%S").year in (2022, 2023, 2024) for row in rows)
    assert any(row[4] is None for row in rows) and any(row[4] for row in rows)


@pytest.mark.parametrize(
    "statement",
    ["ATTACH 'x.db' AS x", "PRAGMA temp_store_directory = '.'", "VACUUM INTO 'x.db'", "DROP TABLE ships"],
)
def test_a_rows_statements_only_create(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sqlite3.DatabaseError, match="authoriz"):
        build(SCHEMA, "1", statements=f"{ddl(SCHEMA)}\n{statement};")
    assert not list(tmp_path.iterdir())


def test_numbers_that_cannot_all_differ_are_refused() -> None:
    schema = [{"table": "t", "rows": 5, "columns": [["n", "number", 1, 2, 0.5, False]]}]
    with pytest.raises(ValueError, match="fewer than 5"):
        build(schema, "1")
