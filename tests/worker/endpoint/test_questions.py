"""The test questions that the page offers."""

import json
from pathlib import Path
from typing import Any

import pytest
from plans import example_plan

from expert_worker.endpoint.questions import questions_with_tags, skipped_files

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


def written(expert: Path, data: Path, record: dict[str, Any], **paths: str) -> Path:
    """The finished adapter of a run in the expert's folder whose plan names `data` as test rows."""
    run = expert / "weights" / "base"
    final = run / "final"
    final.mkdir(parents=True, exist_ok=True)
    (expert / "manifest.json").write_text("{}")
    data.write_text("".join(json.dumps(it) + "\n" for it in ROWS))
    (final / "expert.json").write_text(json.dumps({"format": 1, **record}))
    source = {"name": "test.jsonl", "format": "jsonl", "weight": 1.0}
    places = {"expert_dir": str(expert), **paths}
    changes = {f"machine.paths.{name}": value for name, value in places.items()}
    changes |= {"recipe.data.test": [source], "machine.paths.data": {"test.jsonl": str(data)}}
    plan = example_plan(expert, changes)
    (run / "plan.json").write_text(plan.model_dump_json(by_alias=True, exclude_unset=True))
    return final


@pytest.mark.parametrize(
    ("record", "shown"), [({"system_message": "Answer in SQL."}, ["How many?", "Why?"]), ({}, ["Why?"])]
)
def test_a_question_is_one_message_after_the_training_rows_system_message(
    tmp_path: Path, record: dict[str, str], shown: list[str]
) -> None:
    final = written(tmp_path, tmp_path / "test.jsonl", record)
    found = questions_with_tags(final)
    assert [it["prompt"] for it in found["questions"]] == shown
    assert [it["name"] for it in found["tags"]] == (["count"] if record else [])


def test_a_plan_shows_no_file_outside_the_experts_folder(tmp_path: Path) -> None:
    """A downloaded run may name any file of the user."""
    expert, secret = tmp_path / "expert", tmp_path / "secret.jsonl"
    expert.mkdir()
    none: dict[str, Any] = {"tags": [], "questions": []}
    assert questions_with_tags(written(expert, secret, {})) == none
    # Nor through a link, nor by a plan that calls another folder the expert's.
    (expert / "test.jsonl").symlink_to(secret)
    assert questions_with_tags(written(expert, expert / "test.jsonl", {})) == none
    assert questions_with_tags(written(expert, secret, {}, expert_dir=str(tmp_path))) == none
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text("{}")
    assert questions_with_tags(written(expert, other / "test.jsonl", {}, expert_dir=str(other))) == none
    assert questions_with_tags(written(other, other / "test.jsonl", {}))["questions"]


def test_a_file_elsewhere_is_named_and_shown_where_the_user_allows_its_folder(tmp_path: Path) -> None:
    expert, data, other = (tmp_path / name for name in ("expert", "data", "other"))
    for folder in (expert, data, other):
        folder.mkdir()
    final = written(expert, data / "test.jsonl", {})
    assert skipped_files(final, [other]) == [data / "test.jsonl"]
    assert not questions_with_tags(final, [other])["questions"]
    assert skipped_files(final, [other, data]) == []
    assert [it["prompt"] for it in questions_with_tags(final, [other, data])["questions"]] == ["Why?"]
    # Nor is a file that is there no longer named, or one of the expert.
    (data / "test.jsonl").unlink()
    assert skipped_files(final, []) == skipped_files(written(expert, expert / "test.jsonl", {}), []) == []
    assert skipped_files(tmp_path, []) == []
    # One that cannot be looked at does not stop the server.
    place = final.parent / "plan.json"
    place.write_text(place.read_text().replace("test.jsonl", "a" * 300))
    assert skipped_files(final, []) == [] and not questions_with_tags(final, [])["questions"]
