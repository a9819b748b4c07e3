"""Every expert's data: reproducible, held apart, and worth learning."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import answer_of, answers_of, questions_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers import find_scorer

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
NAMES = sorted(path.parent.name for path in EXPERTS.glob("*/manifest.json"))
SPLITS = ("train", "validation", "test")
SKELETONS = """
import json, sys
sys.path[:0] = sys.argv[1:]
from generator import build
# Rows whose splits differ in names alone, where a generator says so.
by_name = getattr(build, "by_name", lambda row: False)
for row in map(json.loads, sys.stdin):
    for message in row["messages"]:
        if message["role"] == "assistant":
            print(json.dumps([by_name(row), build.skeleton(message["content"])]))
"""


@cache
def rows(expert: str, split: str) -> list[dict[str, Any]]:
    text = (EXPERTS / expert / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def skeletons(expert: str, split: str) -> set[tuple[bool, str]]:
    """Each with whether its row is split by name; in a separate process: all experts have a `generator`."""
    path = EXPERTS / expert / "datasets" / f"{split}.jsonl"
    with path.open("rb") as lines:
        said = subprocess.run(
            [
                sys.executable,
                "-c",
                SKELETONS,
                str(EXPERTS / expert),
                str(EXPERTS.parent / "worker" / "python"),
            ],
            stdin=lines,
            capture_output=True,
            check=True,
        )
    # A generator gives None for an answer too short to be divided among the splits.
    return {(by_name, found) for by_name, found in map(json.loads, said.stdout.splitlines()) if found}


def divided(expert: str, split: str) -> set[str]:
    return {found for by_name, found in skeletons(expert, split) if not by_name}


def scorer_of(expert: str) -> str:
    manifest = json.loads((EXPERTS / expert / "manifest.json").read_text(encoding="utf-8"))
    return str(manifest["evaluation"]["scorer"])


@pytest.mark.parametrize("expert", NAMES)
def test_the_files_are_large_enough_and_their_rows_distinct(expert: str) -> None:
    counts = {split: len(rows(expert, split)) for split in SPLITS}
    # A row to train on may ask several questions.
    assert sum(len(answers_of(row)) for row in rows(expert, "train")) >= 4000
    assert counts["validation"] == counts["test"] == 400
    for split in SPLITS:
        assert len({questions_of(row) for row in rows(expert, split)}) == counts[split]


@pytest.mark.parametrize("expert", NAMES)
def test_the_generator_makes_the_same_bytes_again(expert: str, generated: Callable[[str], Any]) -> None:
    made = generated(expert)
    for split in SPLITS:
        again = (made.folder / f"{split}.jsonl").read_bytes()
        assert (EXPERTS / expert / "datasets" / f"{split}.jsonl").read_bytes().startswith(again)
        assert again.count(b"\n") == (made.train if split == "train" else made.held_out)


@pytest.mark.parametrize("expert", NAMES)
def test_no_held_out_answer_equals_a_training_answer_except_for_names(expert: str) -> None:
    assert len({found for _, found in skeletons(expert, "train")}) > 100
    trained = divided(expert, "train")
    assert trained
    assert not trained & divided(expert, "validation")
    assert not trained & divided(expert, "test")


@pytest.mark.parametrize("expert", NAMES)
def test_no_held_out_answer_is_a_training_answer(expert: str) -> None:
    """Except for answers like `{"count": 2}`, which many questions have in common."""
    trained = {answer for row in rows(expert, "train") for answer in answers_of(row)}
    for split in ("validation", "test"):
        assert not trained & {answer_of(row) for row in rows(expert, split) if len(answer_of(row)) > 14}


@pytest.mark.parametrize("expert", NAMES)
def test_tags_and_levels_are_many_and_trained(expert: str) -> None:
    tags = Counter(tag for row in rows(expert, "test") for tag in row["tags"])
    assert len([tag for tag, count in tags.items() if count >= 5]) >= 20
    assert len({row["level"] for row in rows(expert, "test")}) >= 3
    trained = {tag for row in rows(expert, "train") for tag in row["tags"]}
    assert set(tags) <= trained


@pytest.mark.parametrize("expert", NAMES)
def test_reference_answers_are_right_and_trivial_ones_are_not(expert: str, every_trial: bool) -> None:
    scorer = find_scorer(scorer_of(expert))
    sample = rows(expert, "test")[:: 8 if every_trial else 16]
    for row, other in zip(sample, sample[1:] + sample[:1], strict=True):
        asked = {**row, "completion": answer_of(row)}
        assert judged(scorer, asked, answer_of(row)).reason == ""
        assert not judged(scorer, asked, "").correct
        assert answer_of(row) == answer_of(other) or not judged(scorer, asked, answer_of(other)).correct
