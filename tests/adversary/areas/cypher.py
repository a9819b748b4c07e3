"""Answers to a Cypher question that load, copy, call, change the graph, or never end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.adversary.answers import tally
from tests.adversary.attempt import Area, Attempt, Tally

GRAPH: dict[str, Any] = {
    "nodes": [
        {
            "label": "Person",
            "count": 14,
            "columns": [["name", "name", ["Ada", "Bo", "Cy"]], ["age", "int", 18, 90, False]],
        },
        {"label": "City", "count": 6, "columns": [["name", "name", ["Oslo", "Rome"]]]},
    ],
    "edges": [{"type": "KNOWS", "from": "Person", "to": "Person", "columns": []}],
}
RIGHT = "MATCH (p:Person) RETURN p.name"
ROW = {"graph": GRAPH, "seed": "1", "completion": RIGHT}
ALL = "MATCH (a:Person), (b:Person), (c:Person), (d:Person), (e:Person), (f:Person), (g) RETURN "
HOSTILE = {
    "load": "LOAD FROM '{folder}/secret.txt' (file_format='csv') RETURN *",
    "load after with": "MATCH (p:Person) WITH p LOAD FROM '{folder}/secret.txt' RETURN *",
    "load with headers": "LOAD WITH HEADERS (a STRING) FROM '{folder}/secret.txt' RETURN a",
    "load csv": "LOAD CSV FROM 'file://{folder}/secret.txt' AS line RETURN line",
    "load from a server": "LOAD FROM 'http://127.0.0.1:9/x.csv' RETURN *",
    "lower-case load": "match (p:Person) with p load from '{folder}/secret.txt' return *",
    "load in a subquery": "MATCH (p:Person) WHERE EXISTS { LOAD FROM '{folder}/secret.txt' } RETURN p",
    "copy to": "MATCH (p:Person) RETURN p.name; COPY Person TO '{folder}/out.csv'",
    "copy a query": "COPY (MATCH (p:Person) RETURN p.name) TO '{folder}/out.csv'",
    "copy from": "COPY Person FROM '{folder}/secret.txt'",
    "export": "EXPORT DATABASE '{folder}/out'",
    "import": "MATCH (n) IMPORT DATABASE '{folder}' RETURN n",
    "install": "RETURN 1 INSTALL httpfs",
    "load extension": "LOAD EXTENSION '{folder}/evil.so'",
    "attach": "WITH 1 AS a ATTACH '{folder}/x.db' AS y RETURN a",
    "use": "USE y MATCH (n) RETURN n",
    "call": "MATCH (p:Person) CALL show_tables() RETURN *",
    "call away the limit": "WITH 1 AS a CALL timeout=0 RETURN a",
    "lower-case call": "WITH 1 AS a call TIMEOUT=0 RETURN a",
    "call threads": "CALL threads=10000 RETURN 1",
    "call spill": "CALL spill_to_disk=true RETURN 1",
    "detach delete": "MATCH (p:Person) DETACH DELETE p",
    "set": "MATCH (p:Person) SET p.age = 1 RETURN p",
    "create": "MATCH (p:Person) CREATE (:City {id: 99}) RETURN 1",
    "merge": "MATCH (p:Person) MERGE (c:City {id: 98}) RETURN c",
    "remove": "MATCH (p:Person) REMOVE p.age RETURN p",
    "drop": "DROP TABLE Person",
    "alter": "ALTER TABLE Person DROP age",
    "create macro": "CREATE MACRO f(x) AS x + 1",
    "begin": "BEGIN TRANSACTION",
    "checkpoint": "CHECKPOINT",
    "explain": "EXPLAIN MATCH (p:Person) RETURN p",
    "profile": "PROFILE MATCH (p:Person) RETURN p",
    "foreach": "MATCH (p:Person) FOREACH (x IN [1] | SET p.age = x) RETURN p",
    "an escaped quote": "RETURN 'a\\' LOAD FROM '",
    "quoted names": "RETURN `LOAD` FROM 'x'",
    "a comment that hides": "RETURN 1 /* ' */ LOAD FROM '{folder}/secret.txt' // '",
    "an open string": "RETURN 'open",
    "a number and a dot": "RETURN 1. CALL show_tables()",
    "a parameter": "RETURN $x",
    "NUL": "RETURN \x00 1",
    "a lone surrogate": "RETURN '\ud800'",
    "300,000 sums": "RETURN " + "1 + " * 300_000 + "1",
    "endless unwind": "UNWIND range(1, 1000000000) AS x RETURN count(x)",
    "endless product": ALL + "count(*)",
    "endless path": "MATCH (a:Person)-[:KNOWS*1..30]-(b:Person) RETURN count(*)",
    "endless rows": "UNWIND range(1, 90000) AS x RETURN x",
    "a list of 10^9": "RETURN size(range(1, 1000000000))",
    "repeat": "RETURN size(repeat('x', 2000000000))",
    "lpad": "RETURN lpad('x', 2000000000, 'y')",
    "regex bomb": "RETURN '" + "a" * 40 + "!' =~ '(a+)+$'",
}


def attempts(quick: bool) -> Iterator[Attempt]:
    yield Attempt("Cypher answers", partial(attempt, quick))


def attempt(quick: bool, folder: Path) -> Tally:
    hostile = dict(list(HOSTILE.items())[:: 8 if quick else 1])
    # What stands before the semicolon is the answer, and right; the rest is never run.
    return tally("cypher", ROW, RIGHT, hostile, folder, may_be_right={"copy to"})


AREA = Area("cypher", "Cypher answers", attempts)
