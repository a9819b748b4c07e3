"""Questions that name columns and keys literally: a test set, and rows to train on."""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import answer_of, answers_of, question_of, questions_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers import find_scorer

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
NAMES = sorted(path.parent.name for path in EXPERTS.glob("*/manifest.json"))
# Which share of their training rows is literal.
TRAINED = {
    "expert-json": Fraction(1, 5),
    "expert-neo4j": Fraction(3, 10),
    "expert-sql": Fraction(3, 7),
    "expert-typescript": Fraction(1, 5),
}


@cache
def rows(expert: str, name: str) -> list[dict[str, Any]]:
    text = (EXPERTS / expert / "datasets" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("expert", NAMES)
def test_the_generator_makes_the_test_set_again(expert: str, generated: Callable[[str], Any]) -> None:
    made = generated(expert)
    again = (made.folder / "literal.jsonl").read_bytes()
    assert again.count(b"\n") == made.held_out // 2
    assert (EXPERTS / expert / "datasets" / "literal.jsonl").read_bytes().startswith(again)


@pytest.mark.parametrize("expert", NAMES)
def test_it_is_large_enough_and_held_apart_from_training(expert: str) -> None:
    found = rows(expert, "literal")
    assert len({question_of(row) for row in found}) == len(found) == 200
    assert len({row["level"] for row in found}) >= 3
    trained = rows(expert, "train")
    assert not {question_of(row) for row in found} & {text for row in trained for text in questions_of(row)}
    answers = {answer for row in trained for answer in answers_of(row)}
    assert not {answer_of(row) for row in found} & answers


@pytest.mark.parametrize("expert", TRAINED)
def test_training_has_its_kinds_of_questions(expert: str) -> None:
    literal = [row for row in rows(expert, "train") if row["tags"][0] == "literal"]
    assert len(literal) == TRAINED[expert] * len(rows(expert, "train"))
    trained = {tag for row in literal for tag in row["tags"]}
    assert {tag for row in rows(expert, "literal") for tag in row["tags"]} <= trained


@pytest.mark.parametrize("expert", NAMES)
def test_reference_answers_are_right_and_others_are_not(expert: str, every_trial: bool) -> None:
    manifest = json.loads((EXPERTS / expert / "manifest.json").read_text(encoding="utf-8"))
    scorer = find_scorer(manifest["evaluation"]["scorer"])
    sample = rows(expert, "literal")[:: 4 if every_trial else 12]
    for row, other in zip(sample, sample[1:] + sample[:1], strict=True):
        asked = {**row, "completion": answer_of(row)}
        assert judged(scorer, asked, answer_of(row)).reason == ""
        assert answer_of(row) == answer_of(other) or not judged(scorer, asked, answer_of(other)).correct
