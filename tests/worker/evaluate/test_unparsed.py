"""Wrong answers that a scorer's parser refuses are counted apart from those that say something else."""

from __future__ import annotations

from typing import Any

import pytest

from expert_worker.evaluate.decode import Written
from expert_worker.evaluate.scorers import BUILT_IN, ChosenScorer
from expert_worker.evaluate.scores import judge_answers, unparsed
from expert_worker.results import Answer, Unparsed

NAMES = ["name", "name", ["Argo", "Nova"]]
SCHEMA = [{"table": "pets", "rows": 4, "columns": [["id", "key"], NAMES]}]
GRAPH = {"nodes": [{"label": "Pet", "count": 4, "columns": [NAMES]}], "edges": []}
ROWS: dict[str, dict[str, Any]] = {
    "sql": {"completion": "SELECT name FROM pets", "seed": "s", "schema": SCHEMA},
    "cypher": {"completion": "MATCH (p:Pet) RETURN p.name", "seed": "s", "graph": GRAPH},
    "json": {"completion": '{"a": 1}'},
    "typescript": {"completion": "const a = 1"},
}
REFUSED = {
    "sql": [
        "no idea",
        "SELECT name FORM pets",
        "SELECT name FROM pets WHERE (",
        "SELECT 'x FROM pets",
        "SELECT name FROM pets LIMIT 1 UNION SELECT 1",
    ],
    "cypher": ["no idea", "MATCH (p:Pet RETURN p", "MATCH (p:Pet)", "MATCH (p:Pet) RETURN 'x"],
    "json": ["no idea", '{"a": 1', "{'a': 1}", '{"a": NaN}', ""],
    "typescript": ["", "const a = ", "const = 1;"],
}
OTHERWISE = {
    "sql": ["SELECT nowhere FROM pets", "SELECT id FROM pets", "WITH a AS (SELECT 1) DELETE FROM pets"],
    "cypher": ["MATCH (p:Cat) RETURN p.name", "MATCH (p:Pet) DELETE p", "MATCH (p:Pet) RETURN 1"],
    "json": ['{"a": 2}', '{"a": 1, "a": 1}', "[]"],
    "typescript": ["const a = 2", "let b: string"],
}


def judged(scorer: str, texts: list[str], cut: bool = False) -> list[Answer]:
    return judge_answers(scorer, [ROWS[scorer]] * len(texts), [Written(text, cut) for text in texts])


@pytest.mark.parametrize("scorer", ROWS)
def test_each_parser_says_what_it_refuses(scorer: str) -> None:
    right = str(ROWS[scorer]["completion"])
    found = judged(scorer, [*REFUSED[scorer], *OTHERWISE[scorer], right])
    refused = len(REFUSED[scorer])
    reasons = [answer.reason for answer in found]
    assert [answer.unparsed for answer in found] == [place < refused for place in range(len(found))], reasons
    assert found[-1].correct and not any(answer.correct for answer in found[:-1])
    assert unparsed(ChosenScorer(scorer), found) == Unparsed(answers=refused, cut=0)


def test_an_answer_that_was_cut_is_counted_as_one() -> None:
    found = [
        *judged("json", ['{"a": '], cut=True),
        *judged("json", ["{"]),
        *judged("json", ["[1]"], cut=True),
    ]
    assert unparsed(ChosenScorer("json"), found) == Unparsed(answers=2, cut=1)


def test_a_scorer_without_a_parser_says_nothing() -> None:
    found = judge_answers("exact", [{"completion": "a"}], [Written("b")])
    assert unparsed(ChosenScorer("exact"), found) is None
    assert {name for name in BUILT_IN if ChosenScorer(name).has_parser} == set(ROWS)
