"""The system message that training rows have in common."""

import json
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.plan import Data
from expert_worker.pretokenize.system_message import common_system_message

SQL = "Answer with one SQLite query."


def dialogue(*said: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in said]}


ASKED = (("user", "Which?"), ("assistant", "SELECT 1"))
TOLD = dialogue(("system", SQL), *ASKED)


def common(folder: Path, *sources: list[Any], **changes: Any) -> str | None:
    files = {f"{number}.jsonl": folder / f"{number}.jsonl" for number in range(len(sources))}
    for file, rows in zip(files.values(), sources, strict=True):
        file.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    named = [{"name": name, "format": "jsonl", "weight": 1.0} for name in files]
    plan = example_plan(folder, {"recipe.data.train": named})
    data: Data = plan.recipe.data.model_copy(update=changes)
    return common_system_message(data, {name: str(file) for name, file in files.items()})


def test_it_is_found_in_dialogues_and_in_fields(tmp_path: Path) -> None:
    field = {"system": SQL, "prompt": "Which?", "completion": "SELECT 1"}
    assert common(tmp_path, [TOLD, field], [dialogue(("System", SQL), *ASKED)]) == SQL
    mapped = {"q": "Which?", "a": "SELECT 1", "instruction": SQL}
    mapping = {"prompt": "q", "completion": "a", "system": "instruction"}
    assert common(tmp_path, [mapped], field_mapping=mapping) == SQL


@pytest.mark.parametrize(
    "row",
    [
        dialogue(*ASKED),
        dialogue(("system", "Answer in Cypher."), *ASKED),
        dialogue(*ASKED, ("system", SQL), *ASKED),
        {"text": "running text"},
    ],
    ids=["none", "another", "later", "text"],
)
def test_there_is_none_where_a_row_has_another_or_none(tmp_path: Path, row: dict[str, Any]) -> None:
    assert common(tmp_path, [TOLD, row]) is None
    assert common(tmp_path, [TOLD], [row]) is None
    assert common(tmp_path, [row]) is None or row["messages"][0]["content"] == "Answer in Cypher."


@pytest.mark.parametrize("row", [dialogue(ASKED[0]), {"x": 1}, "no JSON\n"], ids=["asked", "shape", "JSON"])
def test_a_row_that_training_leaves_out_does_not_count(tmp_path: Path, row: Any) -> None:
    assert common(tmp_path, [row, TOLD, row], on_bad_row="skip") == SQL
    assert common(tmp_path, [row], on_bad_row="skip") is None
    assert common(tmp_path, [TOLD, {"text": "running text"}], on_bad_row="skip") is None
    assert common(tmp_path, [row, TOLD], on_bad_row="error") is None


def test_a_file_that_is_gone_has_none(tmp_path: Path) -> None:
    plan = example_plan(tmp_path)
    (source,) = plan.recipe.data.train
    assert common_system_message(plan.recipe.data, {source.name: str(tmp_path / "gone.jsonl")}) is None
