"""Each setting of decoding and of the test set, from the plan to what it changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluate import tiny
from plans import example_plan

from expert_worker.evaluate.decode import Prompt, answer_all
from expert_worker.evaluate.scored_rows import scored_rows

HOT = {"recipe.decoding.temperature": 50.0, "recipe.decoding.max_new_tokens": 12}
# Each leaves only the likeliest token, whatever the temperature.
NARROW: list[dict[str, Any]] = [
    {"recipe.decoding.top_k": 1},
    {"recipe.decoding.top_p": 1e-6},
    {"recipe.decoding.min_p": 1.0},
]


def answers(folder: Path, changes: dict[str, Any], seed: int = 5) -> list[str]:
    decoding = example_plan(folder, changes).recipe.decoding
    prompts = [Prompt(tiny.tokenizer()(text)["input_ids"]) for text in ("a", "why?")]
    found = answer_all(tiny.model(), tiny.tokenizer(), prompts, decoding, seed=seed)
    return [answer.text for answer in found]


def greedy(folder: Path, **changes: Any) -> list[str]:
    cold = {"recipe.decoding.temperature": 0.0, "recipe.decoding.max_new_tokens": 12}
    return answers(folder, {**cold, **changes})


def test_a_temperature_samples(tmp_path: Path) -> None:
    assert answers(tmp_path, HOT) != greedy(tmp_path)
    assert answers(tmp_path, HOT) != answers(tmp_path, HOT, seed=6)


@pytest.mark.parametrize("narrow", NARROW, ids=lambda narrow: next(iter(narrow)))
def test_a_narrow_choice_leaves_the_likeliest_token(tmp_path: Path, narrow: dict[str, Any]) -> None:
    assert answers(tmp_path, {**HOT, **narrow}) == greedy(tmp_path)


def test_an_answer_has_at_most_as_many_tokens_as_asked_for(tmp_path: Path) -> None:
    short = greedy(tmp_path, **{"recipe.decoding.max_new_tokens": 3})
    for cut, whole in zip(short, greedy(tmp_path), strict=True):
        assert cut != whole and whole.startswith(cut)


def test_an_answer_ends_before_a_stop_sequence(tmp_path: Path) -> None:
    whole, _ = greedy(tmp_path)
    stop = whole[4:6]
    ended, _ = greedy(tmp_path, **{"recipe.decoding.stop_sequences": [stop]})
    assert ended == whole[: whole.find(stop)] != whole


def test_a_grammar_constrains_answers(tmp_path: Path) -> None:
    rules = {"kind": "gbnf", "name": "rules.gbnf", "text": 'root ::= "yes" | "no"'}
    constrained = greedy(tmp_path, **{"recipe.decoding.grammar": rules})
    assert set(constrained) <= {"yes", "no"}
    assert not set(greedy(tmp_path)) & {"yes", "no"}


def test_as_many_rows_of_the_test_set_as_asked_for(tmp_path: Path) -> None:
    rows = tmp_path / "test.jsonl"
    rows.write_text("".join(json.dumps({"prompt": f"p{n}", "completion": "c"}) + "\n" for n in range(9)))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0, "task": None}
    changes = {
        "recipe.data.test": [source],
        "recipe.evaluation.scorer": "exact",
        "machine.paths.data": {"test.jsonl": str(rows)},
    }
    plan = example_plan(tmp_path, changes)
    assert len(scored_rows(plan).main) == 9
    few = scored_rows(example_plan(tmp_path, {**changes, "recipe.evaluation.test_set_size": 3})).main
    # One of each third, and always the same: a file may be sorted by what its rows are about, or take turns.
    assert [int(str(row["prompt"])[1:]) // 3 for row in few] == [0, 1, 2]
    assert few == scored_rows(example_plan(tmp_path, {**changes, "recipe.evaluation.test_set_size": 3})).main
