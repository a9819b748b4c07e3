"""Values that are typed in small letters are compared with LIKE, which finds them whatever their case is."""

import json
import sqlite3
from pathlib import Path

import pytest

from expert_worker.evaluate.authoring.rows import answers_of, questions_of
from expert_worker.evaluate.authoring.sql.letters import compared_as_typed
from expert_worker.evaluate.authoring.sql.skeleton import skeleton

TRAIN = Path(__file__).resolve().parents[2] / "experts" / "expert-sql" / "datasets" / "train.jsonl"


@pytest.mark.parametrize(
    ("question", "condition", "compared"),
    [
        ("which doctors do cardiology", "kind = 'Cardiology'", "kind LIKE 'cardiology'"),
        ("all but cardiology", "kind <> 'Cardiology'", "kind NOT LIKE 'cardiology'"),
        ("all but cardiology", "kind != 'Cardiology'", "kind NOT LIKE 'cardiology'"),
        ("lamps of ann o'neill", "owner = 'Ann O''Neill'", "owner LIKE 'ann o''neill'"),
        ("who is in Porto", "city = 'Porto'", "city = 'Porto'"),
        ("who is in Porto", "city = 'porto'", "city = 'porto'"),
        ("who is in interviews", "stage = 'interview'", "stage = 'interview'"),
        ("what did marta_k write", "name = 'marta_k'", "name = 'marta_k'"),
        ("since 2024-05-01", "day = '2024-05-01'", "day = '2024-05-01'"),
        ("red or blue ones", "color IN ('Red', 'Blue')", "color IN ('Red', 'Blue')"),
    ],
)
def test_only_what_is_typed_in_small_letters(question: str, condition: str, compared: str) -> None:
    assert compared_as_typed(f"SELECT * FROM t WHERE {condition}", question).endswith(compared)


def test_sqlite_finds_the_value_in_any_letters() -> None:
    table = sqlite3.connect(":memory:")
    table.executescript("CREATE TABLE t (owner); INSERT INTO t VALUES ('Ann O''Neill'), ('Bo'), (NULL);")
    query = compared_as_typed("SELECT owner FROM t WHERE owner = 'ANN O''NEILL'", "what has ann o'neill")
    assert table.execute(query).fetchall() == [("Ann O'Neill",)]
    query = compared_as_typed("SELECT owner FROM t WHERE owner <> 'BO'", "all without bo")
    assert table.execute(query).fetchall() == [("Ann O'Neill",)]


def test_it_is_the_same_form_of_query() -> None:
    assert skeleton("SELECT a FROM b WHERE c LIKE 'd'") == skeleton("SELECT a FROM b WHERE c = 'e'")
    assert skeleton("SELECT a FROM b WHERE c NOT LIKE 'd'") == skeleton("SELECT a FROM b WHERE c <> 'e'")
    assert skeleton("SELECT a FROM b WHERE c LIKE '%d'") != skeleton("SELECT a FROM b WHERE c = 'e'")


def test_every_everyday_training_answer_keeps_to_it() -> None:
    """Literal questions write values as the table has them."""
    every = [json.loads(line) for line in TRAIN.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in every if row["tags"][0] != "literal"]
    pairs = [pair for row in rows for pair in zip(questions_of(row), answers_of(row), strict=True)]
    typed = [question.rsplit("\n", 1)[-1] for question, _ in pairs]
    assert all(
        answer == compared_as_typed(answer, asked) for asked, (_, answer) in zip(typed, pairs, strict=True)
    )
    assert sum(" LIKE '" in answer and "%" not in answer for _, answer in pairs) > 500
