"""The test questions that the page offers."""

import json
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.endpoint.questions import questions_with_tags

TOLD = {"role": "system", "content": "Answer in SQL."}


def row(*said: dict[str, str], tags: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"messages": [*said, {"role": "assistant", "content": "SELECT 1"}], "tags": tags}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


ROWS = [
    row(TOLD, user("How many?"), tags=("count",)),
    row({**TOLD, "content": "Answer in Cypher."}, user("Which?")),
    row(user("Why?")),
    row(TOLD, user("First"), {"role": "assistant", "content": "SELECT 2"}, user("Then?")),
]


@pytest.mark.parametrize(
    ("record", "shown"), [({"system_message": "Answer in SQL."}, ["How many?", "Why?"]), ({}, ["Why?"])]
)
def test_a_question_is_one_message_after_the_training_rows_system_message(
    tmp_path: Path, record: dict[str, str], shown: list[str]
) -> None:
    data, final = tmp_path / "test.jsonl", tmp_path / "final"
    data.write_text("".join(json.dumps(it) + "\n" for it in ROWS))
    final.mkdir()
    (final / "expert.json").write_text(json.dumps({"format": 1, **record}))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0}
    changes = {"recipe.data.test": [source], "machine.paths.data": {"test.jsonl": str(data)}}
    plan = example_plan(tmp_path, changes)
    (tmp_path / "plan.json").write_text(plan.model_dump_json(by_alias=True, exclude_unset=True))
    found = questions_with_tags(final)
    assert [it["prompt"] for it in found["questions"]] == shown
    assert [it["name"] for it in found["tags"]] == (["count"] if record else [])
