"""docs/scorers.md: its functions, as they are printed, in the sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import ChosenScorer

PAGE = Path(__file__).parents[3] / "docs" / "scorers.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def block(language: str) -> str:
    return blocks(language)[0]


def test_the_function_on_the_page_does_what_the_page_says() -> None:
    named = json.loads("{" + block("json") + "}")["evaluation"]["scorer"]["python"]
    file, function = named.split(":")
    scorer = ChosenScorer("python", {"file": file, "function": function}, block("python"))
    expected = {"who": "Ana", "day": "Monday", "hour": 9}
    answers = [json.dumps(expected), json.dumps(expected | {"hour": 10}), "Monday at nine", "[1]", "{}"]
    found = judge_all(scorer, [{"completion": json.dumps(expected)}] * len(answers), answers)
    assert [verdict.score for verdict in found] == pytest.approx([1, 2 / 3, 0, 0, 0])
    reasons = [verdict.reason for verdict in found]
    assert reasons[1:] == ["wrong: hour", "not JSON", "not an object", "wrong: who, day, hour"]
    assert not any(verdict.failed for verdict in found)
    assert len(block("python").strip().splitlines()) <= 16


def test_the_function_for_lists_compares_sets() -> None:
    _, source = blocks("python")
    scorer = ChosenScorer("python", {"file": "score.py", "function": "score"}, source)
    answers = ['["b", "a"]', '["a"]', '["a", "c"]', "[]", '"ab"', "[{}]", "a, b"]
    found = judge_all(scorer, [{"completion": '["a", "b"]'}] * len(answers), answers)
    assert [verdict.score for verdict in found] == pytest.approx([1, 2 / 3, 1 / 2, 0, 0, 0, 0])
    assert [verdict.reason for verdict in found][4:] == ["not a list of texts"] * 2 + ["not JSON"]
    empty, other = judge_all(scorer, [{"completion": "[]"}] * 2, ["[]", '["a"]'])
    assert empty.correct and other.score == 0
    assert not any(verdict.failed for verdict in found)
