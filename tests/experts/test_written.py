"""Training questions written by hand: their answers run, a grammar reads them, and training has them."""

import json
import re
import sqlite3
from fractions import Fraction
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from schema_grammar.accepts import refused_at

from expert_worker.evaluate.authoring.rows import answers_of, questions_of, within_characters
from expert_worker.evaluate.authoring.sql.by_hand import FOLDER
from expert_worker.evaluate.authoring.sql.letters import compared_as_typed
from expert_worker.evaluate.authoring.written import Block, among, blocks, conversations
from expert_worker.evaluate.scorers.cypher_guard import refusal
from expert_worker.evaluate.scorers.typescript_tree import parsed
from expert_worker.schema_grammar import cypher, sql

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
NAMES = ("expert-json", "expert-neo4j", "expert-sql", "expert-typescript")
# How many of the training rows are written by hand at most.
MOST = dict.fromkeys(NAMES, Fraction(1, 2)) | {"expert-sql": Fraction(2, 3)}


def written(expert: str) -> tuple[Block, ...]:
    return blocks(FOLDER if expert == "expert-sql" else EXPERTS / expert / "generator" / "written")


@cache
def rows(expert: str) -> list[dict[str, Any]]:
    text = (EXPERTS / expert / "datasets" / "train.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("expert", NAMES)
def test_there_are_many_and_each_is_asked_once(expert: str) -> None:
    asked = [(block.shown, question.casefold()) for block in written(expert) for question, _ in block.asked]
    assert len(asked) >= 500
    assert len(set(asked)) == len(asked)
    # Code has several lines, other answers have one.
    several = expert == "expert-typescript"
    assert all(
        question and answer and (several or "\n" not in answer)
        for it in written(expert)
        for question, answer in it.asked
    )


@pytest.mark.parametrize("expert", NAMES)
def test_most_of_them_are_trained_and_not_too_many_rows_are_theirs(expert: str) -> None:
    trained = {
        pair
        for row in rows(expert)
        if row["tags"] == ["written"]
        for pair in zip(
            (text.rsplit("\n", 1)[-1] for text in questions_of(row)), answers_of(row), strict=True
        )
    }
    every = {
        (question.rsplit("\n", 1)[-1], answer) for it in written(expert) for question, answer in it.asked
    }
    assert trained <= every
    assert len(trained) > 0.7 * len(every)
    assert 0.1 < sum(row["tags"] == ["written"] for row in rows(expert)) / len(rows(expert)) <= MOST[expert]


def test_queries_run_and_say_their_order() -> None:
    for block in written("expert-sql"):
        database = sqlite3.connect(":memory:")
        database.executescript(block.shown)
        for question, answer in block.asked:
            database.execute(answer).fetchall()
            assert answer == compared_as_typed(answer, question), question
            assert " ORDER BY " not in answer or re.search(r"\b(ASC|DESC)\b", answer), answer


AGGREGATE = r"\b(?:count|sum|avg|min|max)\("
# Neo4j refuses an order by a count that is not returned; the scorer's engine knows no `date.year`.
NOT_EVERYWHERE = re.compile(rf"RETURN (?:(?!{AGGREGATE}).)* ORDER BY {AGGREGATE}|\b[a-dr]\.\w+\.\w+")


def test_cypher_only_reads() -> None:
    for block in written("expert-neo4j"):
        for _, answer in block.asked:
            assert refusal(answer) is None, answer
            assert not NOT_EVERYWHERE.search(answer), answer


def sampled(expert: str) -> list[Any]:
    """Every eighth block; the others where long tests run."""
    return [
        pytest.param(block, id=block.shown[:40], marks=[pytest.mark.full] if place % 8 else [])
        for place, block in enumerate(written(expert))
    ]


@pytest.mark.parametrize("block", sampled("expert-sql"))
def test_the_grammar_reads_the_queries(block: Block) -> None:
    rules = sql.rules(f"{block.shown}\nall")
    for _, answer in block.asked:
        assert refused_at(rules, answer) is None, answer


@pytest.mark.parametrize("block", sampled("expert-neo4j"))
def test_cypher_keeps_to_the_graph(block: Block) -> None:
    rules = cypher.rules(f"{block.shown}\nall")
    for _, answer in block.asked:
        assert refused_at(rules, answer) is None, answer


def test_typescript_answers_parse() -> None:
    for block in written("expert-typescript"):
        for _, answer in block.asked:
            assert parsed(answer) is not None, answer


def test_json_answers_are_written_in_one_way() -> None:
    for block in written("expert-json"):
        for _, answer in block.asked:
            assert json.dumps(json.loads(answer), ensure_ascii=False) == answer


def test_blocks_and_tasks_are_read(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("two\nlines\n=> [1]\n====\nx => y\n=> {}\n")
    (tmp_path / "a.txt").write_text("T (a);\n? one?\nA\n? two\nB\n")
    assert blocks(tmp_path) == (
        Block("T (a);", (("one?", "A"), ("two", "B"))),
        Block("", (("two\nlines", "[1]"),)),
        Block("", (("x => y", "{}"),)),
    )


def test_every_question_comes_once_before_any_comes_again() -> None:
    block = Block("shown", tuple((f"question {place}", f"answer {place}") for place in range(7)))
    longest = len("system") + len("shown\n") + 3 * len("question 1answer 1")
    first = list(islice(conversations([block], "system", within_characters(longest), "a"), 3))
    asked = [
        turn["content"].split("\n")[-1] for messages in first for turn in messages if turn["role"] == "user"
    ]
    assert sorted(asked) == sorted(question for question, _ in block.asked)
    assert all(sum(len(turn["content"]) for turn in messages) <= longest for messages in first)
    assert [messages[1]["content"].startswith("shown\n") for messages in first] == [True] * 3


def test_single_questions_end_after_the_last() -> None:
    assert len(list(conversations([Block("", (("q", "a"),))], "system", within_characters(100), "a"))) == 1


def test_fewer_rows_are_the_beginning_of_more() -> None:
    def made(many: int) -> list[int]:
        generated, written_rows = ({"n": place} for place in range(99)), ({"n": -place} for place in (1, 2))
        return [row["n"] for row in among(generated, written_rows, Fraction(1, 3), many)]

    assert made(10) == [0, 1, -1, 2, 3, -2, 4, 5, 6, 7]
    assert made(4) == made(10)[:4]


def test_a_share_of_the_rows_is_written() -> None:
    generated, written_rows = ({"n": 0} for _ in count()), ({"n": 1} for _ in count())
    found = [row["n"] for row in among(generated, written_rows, Fraction(2, 3), 9)]
    assert found == [0, 1, 1] * 3
