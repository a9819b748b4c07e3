"""Scores from 0 to 1: their mean, its interval, and the comparison row by row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from expert_worker.evaluate import scores
from expert_worker.evaluate.intervals import interval, wilson
from expert_worker.evaluate.rows import canonical_row, text_of
from expert_worker.evaluate.scorers import ChosenScorer
from expert_worker.evaluate.scores import compared, measure, overall
from expert_worker.results import Answer

ASKED = [{"role": "user", "content": "Rain?"}]


def answers(*values: float) -> list[Answer]:
    return [
        Answer(text=str(place), correct=value >= 1, reason="", score=value)
        for place, value in enumerate(values)
    ]


def test_right_and_wrong_answers_have_wilsons_interval() -> None:
    found = overall(answers(1, 0, 1, 1))
    assert (found.correct, found.total, found.accuracy) == (3, 4, 0.75)
    assert (found.low, found.high) == wilson(3, 4)
    assert interval([]) == (0.0, 1.0)


def test_partial_scores_have_a_mean_and_a_narrower_interval() -> None:
    found = overall(answers(0.5, 0.25, 0.75, 1.0, 0.5))
    assert (found.correct, found.total) == (1, 5)
    assert found.accuracy == pytest.approx(0.6)
    assert 0 < found.low < 0.6 < found.high < 1
    low, high = wilson(3, 5)
    assert found.high - found.low < high - low


def test_a_few_equal_scores_do_not_make_the_mean_certain() -> None:
    low, high = interval([0.5] * 4)
    assert low < 0.3 and high > 0.7
    assert interval([0.5] * 400)[0] > 0.49


@pytest.mark.parametrize("score", [0.2 + 0.7 + 0.1, 1 - 1e-12, 1 + 1e-15])
def test_one_rounding_step_does_not_widen_the_interval(score: float) -> None:
    assert interval([score] + [1.0] * 19) == pytest.approx(wilson(20, 20))
    assert interval([score] * 20) == pytest.approx(wilson(20, 20))
    assert interval([1 - score] + [0.0] * 19) == pytest.approx(wilson(0, 20), abs=1e-9)
    found = compared(answers(*[0.0] * 20), answers(min(score, 1.0), *[1.0] * 19))
    assert found is not None
    assert found.low > 0.6 and found.high == pytest.approx(1)


@pytest.mark.parametrize("count", [10, 40])
@pytest.mark.parametrize(
    "draw",
    [
        lambda chance: chance.random(),
        lambda chance: chance.betavariate(8, 2),
        lambda chance: chance.choice([0.0, 0.0, 0.5, 1.0]),
    ],
)
def test_the_interval_holds_the_true_mean_about_95_times_of_100(
    count: int, draw: Callable[[random.Random], float]
) -> None:
    chance = random.Random(7)
    many = [draw(chance) for _ in range(20_000)]
    truth = sum(many) / len(many)
    held = 0
    for _ in range(1000):
        low, high = interval([draw(chance) for _ in range(count)])
        held += low <= truth <= high
    assert 925 <= held <= 985


def test_the_mean_is_named_for_what_it_is() -> None:
    exact, rouge = ChosenScorer("exact"), ChosenScorer("rouge", {"variant": "rouge2"})
    assert measure(exact, answers(1, 0), None) == "accuracy"
    assert measure(exact, answers(1, 0), answers(1, 0.5)) == "mean score"
    assert measure(rouge, answers(1, 0), None) == "ROUGE-2 F1"
    assert measure(ChosenScorer("rouge"), answers(1, 0), None) == "ROUGE-L F1"


def test_rows_are_compared_with_themselves() -> None:
    hard_and_easy = [0.1, 0.9, 0.2, 0.8, 0.5, 0.3, 0.7, 0.4] * 5
    better = [score + 0.1 for score in hard_and_easy]
    found = compared(answers(*hard_and_easy), answers(*better))
    assert found is not None
    assert found.difference == pytest.approx(0.1)
    assert (found.better, found.worse) == (40, 0)
    assert 0 < found.low < 0.1 < found.high
    # The intervals of the two means overlap: most of their width is that of the rows.
    assert interval(hard_and_easy)[1] > interval(better)[0]
    same = compared(answers(1, 0, 0), answers(0, 1, 0))
    assert same is not None
    assert (same.difference, same.better, same.worse) == (0, 1, 1)
    assert same.low < 0 < same.high
    assert compared(answers(1), None) is None


def test_the_lowest_scores_are_the_failures_and_the_largest_gains_are_shown() -> None:
    rows = [{"messages": [{"content": str(place)}], "completion": ""} for place in range(40)]
    base = answers(*[0.0] * 40)
    adapter = answers(*[place / 40 for place in range(40)])
    failed = scores.failures(rows, base, adapter)
    assert [int(one.prompt) for one in failed] == list(range(12))
    assert [int(one.prompt) for one in scores.gains(rows, base, adapter)] == list(range(34, 40))
    wrong = scores.failures(rows, None, base)
    assert [int(one.prompt) for one in wrong] == [place * 40 // 12 for place in range(12)], (
        "spread over the set"
    )


def test_a_question_without_a_text_is_shown_as_the_calls_in_it() -> None:
    call = {"function": {"name": "weather", "arguments": '{"town": "Århus"}'}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    rows = [canonical_row({"messages": [*ASKED, turn, {"role": "assistant", "content": "Yes."}]}, {})]
    (failed,) = scores.failures(rows, None, answers(0.0))
    assert failed.prompt == json.dumps([call], ensure_ascii=False)
    assert [text_of(message) for message in (*ASKED, {"role": "assistant", "content": None})] == ["Rain?", ""]
