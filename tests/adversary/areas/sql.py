"""Answers to an SQL question that write, read, leave the database, or never end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.adversary.answers import tally
from tests.adversary.attempt import Area, Attempt, Tally

ROW = {
    "schema": [
        {"table": "ships", "rows": 9, "columns": [["id", "key"], ["name", "name", ["Argo", "Nova"]]]},
        {"table": "cargoes", "rows": 24, "columns": [["id", "key"], ["ship_id", "ref", "ships"]]},
    ],
    "seed": "7",
    "completion": "SELECT id FROM ships",
}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
HOSTILE = {
    "attach": "SELECT 1; ATTACH DATABASE '{folder}/stolen.db' AS x",
    "attach alone": "ATTACH DATABASE '{folder}/stolen.db' AS x",
    "attach the secret": "ATTACH DATABASE '{folder}/secret.txt' AS x; SELECT * FROM x.sqlite_master",
    "vacuum into": "VACUUM INTO '{folder}/stolen.db'",
    "with, vacuum": "WITH a AS (SELECT 1) SELECT * FROM a; VACUUM INTO '{folder}/stolen.db'",
    "insert": "WITH a AS (SELECT 1) INSERT INTO ships VALUES (99, 'x')",
    "insert returning": "INSERT INTO ships VALUES (99, 'x') RETURNING id",
    "update": "UPDATE ships SET name = 'x' RETURNING id",
    "delete": "WITH a AS (SELECT 1) DELETE FROM ships",
    "delete all, then ask": "DELETE FROM ships; SELECT id FROM ships",
    "drop": "DROP TABLE ships",
    "create table as": "CREATE TABLE mine AS SELECT id FROM ships",
    "create trigger": "CREATE TRIGGER t AFTER INSERT ON ships BEGIN SELECT 1; END",
    "create view": "CREATE TEMP VIEW ships AS SELECT 1 AS id",
    "alter": "ALTER TABLE ships RENAME TO gone",
    "replace": "REPLACE INTO ships VALUES (1, 'x')",
    "virtual table": "CREATE VIRTUAL TABLE v USING fts5(a)",
    "reindex": "REINDEX ships",
    "analyze": "ANALYZE",
    "begin": "BEGIN EXCLUSIVE",
    "savepoint": "SAVEPOINT a",
    "pragma": "PRAGMA writable_schema = 1",
    "pragma database list": "SELECT * FROM pragma_database_list",
    "pragma table info": "SELECT * FROM pragma_table_info('ships')",
    "pragma temp store": "PRAGMA temp_store_directory = '{folder}'",
    "pragma hard heap": "PRAGMA hard_heap_limit = 0",
    "load extension": "SELECT load_extension('{folder}/evil.so')",
    "readfile": "SELECT readfile('{folder}/secret.txt')",
    "writefile": "SELECT writefile('{folder}/stolen.txt', 'x')",
    "edit": "SELECT edit('x', 'touch {folder}/pwned')",
    "fts tokenizer": "SELECT fts3_tokenizer('x', x'00000000')",
    "schema": "SELECT sql FROM sqlite_master",
    "schema by another name": "SELECT sql FROM main.sqlite_schema",
    "json_each over a file": "SELECT * FROM json_each(readfile('{folder}/secret.txt'))",
    "generate series": "SELECT value FROM generate_series(1, 10000000000)",
    "endless count": ENDLESS + "COUNT(*) FROM n",
    "endless rows": ENDLESS + "i FROM n",
    "endless text": "WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM n) SELECT t FROM n",
    "six tables crossed": "SELECT COUNT(*) FROM cargoes a, "
    + ", ".join(f"cargoes {name}" for name in "bcdef"),
    "zeroblob": "SELECT zeroblob(2000000000)",
    "randomblob": "SELECT randomblob(2000000000)",
    "printf": "SELECT printf('%900000000d', 1)",
    "hex of hex": "SELECT hex(hex(hex(hex(printf('%99999d', 1)))))",
    "replace grows": "SELECT replace(hex(printf('%99999d', 1)), '2', 'aaaaaaaaaaaaaaaa')",
    "like bomb": "SELECT printf('%.30000c', 'a') LIKE '" + "%a" * 20_000 + "b'",
    "glob bomb": "SELECT printf('%.50000c', 'a') GLOB '" + "*a" * 24 + "b'",
    "500 brackets": "SELECT " + "(" * 500 + "1" + ")" * 500,
    "a list of 300,000": "SELECT " + "1," * 300_000 + "1",
    "3 MB of text": "SELECT '" + "x" * 3_000_000,
    "NUL": "SELECT \x00 FROM ships",
    "a lone surrogate": "SELECT \ud800",
    "a comment around it": "SELECT id FROM ships /* ; ATTACH 'x' AS y */ WHERE 0",
    "500 unions": " UNION ALL ".join(["SELECT id FROM ships"] * 600),
}


def attempts(quick: bool) -> Iterator[Attempt]:
    yield Attempt("SQL answers", partial(attempt, quick))


def attempt(quick: bool, folder: Path) -> Tally:
    hostile = dict(list(HOSTILE.items())[:: 8 if quick else 1])
    return tally("sql", ROW, ROW["completion"], hostile, folder)  # type: ignore[arg-type]


AREA = Area("sql", "SQL answers", attempts)
