"""docs/scorers.md: its function, as it is printed, in the sandbox."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from expert_worker.evaluate.sandbox import judge_all
from expert_worker.evaluate.scorers import ChosenScorer

PAGE = Path(__file__).parents[3] / "docs" / "scorers.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


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
