"""Questions by people about three schemas: right references, and nothing that the generator makes."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from defaults import ROOT, save_base

from expert_worker.evaluate.authoring.rows import answer_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers.sql import SqlScorer, is_ordered, same
from expert_worker.evaluate.scorers.sql_data import build
from expert_worker.schema_rows.copies import without_copies
from expert_worker.schema_rows.ddl import read_ddl
from expert_worker.schema_rows.scenes import Database
from expert_worker.schema_rows.sql_rows import SqlRows
from expert_worker.schema_rows.vocabulary import Synonyms

sys.path.insert(0, str(ROOT / "benches" / "schemas"))
from schema_questions import SCHEMAS, content, ddl_of, rows, statements

every_schema = pytest.mark.parametrize("schema", SCHEMAS)


@every_schema
def test_there_are_thirty_questions_each_asked_once(schema: str) -> None:
    asked = [row["messages"][1]["content"].casefold() for row in rows(schema, shown=False)]
    assert len(set(asked)) == len(asked) == 30
    assert min(Counter(row["level"] for row in rows(schema, shown=False)).values()) >= 3
    for row in rows(schema, shown=True):
        assert "CREATE TABLE" in row["messages"][1]["content"], "the reference names no table"


@every_schema
def test_the_content_has_the_columns_of_the_schema(schema: str) -> None:
    tables = read_ddl(ddl_of(schema).read_bytes(), schema).tables
    described = {table["table"]: [column[0] for column in table["columns"]] for table in content(schema)}
    assert described == {table.name: [column.name for column in table.columns] for table in tables}


@every_schema
def test_each_reference_finds_something_whatever_the_stored_order(schema: str) -> None:
    ddl = "\n".join(statements(schema).values())
    places = {f"{row['seed']}/{place}" for row in rows(schema, shown=False) for place in range(3)}
    both = {
        place: [build(content(schema), place, reverse=reverse, statements=ddl) for reverse in (False, True)]
        for place in places
    }
    for row in rows(schema, shown=False):
        gold = answer_of(row)
        for place in range(3):
            found, turned = (one.execute(gold).fetchall() for one in both[f"{row['seed']}/{place}"])
            assert says_something(found), gold
            assert same(found, turned, is_ordered(gold)), gold


def says_something(found: list[Any]) -> bool:
    """Not empty, not only nulls, and not a count of nothing."""
    return [list(row) for row in found] != [[0]] and any(value is not None for row in found for value in row)


@every_schema
def test_the_scorer_accepts_a_reference_and_not_the_next_one(schema: str) -> None:
    scorer = SqlScorer()
    found = rows(schema, shown=True)
    for row, other in list(pairwise(found))[::6]:
        asked = {**row, "completion": answer_of(row)}
        assert judged(scorer, asked, answer_of(row)).correct
        assert not judged(scorer, asked, answer_of(other)).correct
        assert not judged(scorer, asked, "SELECT 1").correct


@pytest.mark.parametrize(
    "schema", [pytest.param(name, marks=[pytest.mark.full] * (name != "film_rental")) for name in SCHEMAS]
)
def test_no_question_resembles_a_generated_one(schema: str) -> None:
    database = Database(read_ddl(ddl_of(schema).read_bytes(), schema), Synonyms({}))
    generated = list(SqlRows(database, 1).rows("train", 40))
    for shown in (False, True):
        asked = rows(schema, shown=shown)
        assert without_copies(asked, generated) == asked
    planted = generated[0]["messages"]
    copy = {"messages": [planted[0], {**planted[1], "content": planted[1]["content"].lower()}, planted[2]]}
    assert without_copies([copy], generated) == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_bench_makes_trains_and_scores_an_expert(tmp_path: Path) -> None:
    words = ["--schemas", "film_rental", "--minutes", "0.01", "--rows", "60", "--questions", "2"]
    words += ["--seeds", "42", "43"]
    base, results = save_base(tmp_path / "base"), tmp_path / "found.json"
    places = map(str, ("--model", base, "--output", tmp_path, "--results", results))
    command = [sys.executable, "-m", "benches.schemas", *words, *places]
    environment = {**os.environ, "EXPERT_PYTHON": sys.executable, "EXPERT_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(done.stdout)
    assert document == json.loads(results.read_text())
    found = document["results"]["schemas"]["film_rental"]
    assert found["rows"] == 60 and list(found["seeds"]) == ["42", "43"]
    for run in found["seeds"].values():
        assert run["steps"] >= 1
        assert all(run["sets"][name]["rows"] == 2 for name in ("tables_shown", "question_only"))
    losses = [run["validation_loss"] for run in found["seeds"].values()]
    assert losses[0] != losses[1], "the seed changed nothing"
    for mean in found["mean"].values():
        assert 0 <= mean["lowest"] <= mean["adapter"] <= mean["highest"] <= 1
