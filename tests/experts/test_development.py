"""Development questions: written by hand, to see what training rows lack and to choose recipes by."""

import json
import shutil

import pytest

from expert_worker.evaluate.authoring.rows import answer_of, question_of, questions_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers import find_scorer

from .test_people import EXPERTS, NEAR, resembling, rows

FILE = "development.jsonl"
NAMES = sorted(path.parents[1].name for path in EXPERTS.glob(f"*/datasets/{FILE}"))
LEAST = 75


def test_every_expert_has_them() -> None:
    assert NAMES == ["expert-json", "expert-neo4j", "expert-sql", "expert-typescript"]


@pytest.mark.parametrize("expert", NAMES)
def test_references_are_right_and_other_answers_wrong(expert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    manifest = json.loads((EXPERTS / expert / "manifest.json").read_text(encoding="utf-8"))
    scorer = find_scorer(manifest["evaluation"]["scorer"])
    found = rows(expert, "development")
    assert len({question_of(row) for row in found}) == len(found) >= LEAST
    for row, other in list(zip(found, found[1:] + found[:1], strict=True))[::6]:
        asked = {**row, "completion": answer_of(row)}
        assert judged(scorer, asked, answer_of(row)).reason == ""
        assert not judged(scorer, asked, answer_of(other)).correct


@pytest.mark.parametrize("expert", NAMES)
def test_they_resemble_neither_rows_of_training_nor_questions_by_people(expert: str) -> None:
    asked = [question_of(row) for row in rows(expert, "development")]
    for split in ("train", "validation", "people"):
        found = resembling(asked, (text for row in rows(expert, split) for text in questions_of(row)))
        assert not found, (NEAR, found[:5])


@pytest.mark.parametrize("expert", NAMES)
def test_no_setting_of_training_names_them(expert: str) -> None:
    text = (EXPERTS / expert / "manifest.json").read_text(encoding="utf-8")
    assert FILE not in text and "*.jsonl" not in text
