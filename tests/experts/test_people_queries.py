"""Questions by people about databases and graphs: each asks for something that is there."""

from functools import cache
from typing import Any

from expert_worker.evaluate.authoring.rows import answer_of, question_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers.cypher import CypherScorer
from expert_worker.evaluate.scorers.sql import SqlScorer, database, is_ordered, query, same
from expert_worker.evaluate.scorers.sql_data import build

from .test_people import SETS
from .test_people import rows as rows_of

PLACES = range(3)


@cache
def rows(expert: str) -> list[dict[str, Any]]:
    found = [row for of, name in SETS if of == expert for row in rows_of(expert, name)]
    return [{**row, "completion": answer_of(row)} for row in found]


def says_something(found: list[Any]) -> bool:
    """Not empty, not only nulls, and not a count of nothing."""
    return [list(row) for row in found] != [[0]] and any(value is not None for row in found for value in row)


def test_questions_come_from_several_schemas() -> None:
    for expert in ("expert-sql", "expert-neo4j"):
        assert len({row["tags"][1] for row in rows(expert)}) >= 16


def test_every_sql_reference_says_something_whatever_the_stored_order() -> None:
    for row in rows("expert-sql"):
        gold = row["completion"]
        for place in PLACES:
            seed = f"{row['seed']}/{place}"
            found = query(database(row, seed), gold)
            assert says_something(found), gold
            turned = query(build(row["schema"], seed, reverse=True, statements=row["ddl"]), gold)
            assert same(found, turned, is_ordered(gold)), gold


def test_every_cypher_reference_says_something_and_a_constant_is_wrong(every_trial: bool) -> None:
    scorer = CypherScorer()
    for row in rows("expert-neo4j")[:: 1 if every_trial else 6]:
        for place in PLACES:
            found = scorer.ask(row["graph"], f"{row['seed']}/{place}", row["completion"])
            assert says_something(found), row["completion"]
        for answer in ("RETURN 1", "RETURN null"):
            assert not judged(scorer, row, answer).correct, row["completion"]


def test_a_constant_is_wrong_sql() -> None:
    scorer = SqlScorer()
    for row in rows("expert-sql"):
        for answer in ("SELECT 1", "SELECT 1 WHERE 0", "SELECT NULL"):
            assert not judged(scorer, row, answer).correct, row["completion"]


def test_the_question_shows_the_statements_that_make_the_database() -> None:
    for row in rows("expert-sql"):
        assert question_of(row).startswith(row["ddl"] + "\n")


def test_a_careless_reader_is_wrong() -> None:
    """The conditions of a question matter on its databases: without them the answer is another one."""
    scorer = SqlScorer()
    plain = [
        row
        for row in rows("expert-sql")
        if row["completion"].count(" WHERE ") == 1 and "(SELECT" not in row["completion"]
    ]
    assert len(plain) > 40
    for row in plain:
        before, rest = row["completion"].split(" WHERE ")
        ends = [rest.find(word) for word in (" GROUP BY", " ORDER BY", " LIMIT") if word in rest]
        careless = before + (rest[min(ends) :] if ends else "")
        assert not judged(scorer, row, careless).correct, row["completion"]
