"""What the data of expert-typescript promises: many kinds, many wordings, typed as people type."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import answer_of, question_of

EXPERT = Path(__file__).resolve().parents[2] / "experts" / "expert-typescript"
SPLITS = ("train", "validation", "test")
LINE = re.compile(r"(\w+)(?:/\w+)?: (.+)")
NAMED = re.compile(r"\b(?:interface|type|enum|class) ([A-Z]\w+)")
# Lines of code, lists and tables below or above a sentence.
CODE = re.compile(r"\s|[{}|*-]|```|.*[{};]$|\w+\?? ?[:-] ")
# Some tags of each family, and how many wordings each has at least.
WORDINGS = {
    "interface": 120,
    "from-json": 60,
    "union": 60,
    "enum": 20,
    "partial": 30,
    "pick": 25,
    "omit": 25,
    "filter": 90,
    "map": 70,
    "find": 80,
    "string-function": 90,
    "array-function": 80,
    "to-arrow": 35,
    "function-type": 30,
    "record": 20,
}


@cache
def rows(split: str) -> list[dict[str, Any]]:
    text = (EXPERT / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def everyday(split: str) -> list[dict[str, Any]]:
    return [row for row in rows(split) if row["tags"][0] != "literal"]


@cache
def kinds(split: str) -> dict[str, frozenset[str]]:
    """The kinds of a split with the names of their properties."""
    text = (EXPERT / "generator" / "kinds" / f"{split}.txt").read_text(encoding="utf-8")
    found = (LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    return {one[1]: frozenset(re.findall(r"(\w+)\?? [\w{]", one[2])) for one in found if one}


def test_there_are_many_kinds_and_each_belongs_to_one_split() -> None:
    names = Counter(name for split in SPLITS for name in kinds(split))
    assert len(names) >= 150
    assert set(names.values()) == {1}
    for split in ("validation", "test"):
        for own in kinds(split).values():
            assert len(own) >= 6
            for trained in kinds("train").values():
                assert len(own & trained) <= 4


def test_all_kinds_are_used() -> None:
    for split in SPLITS:
        text = "".join(question_of(row) + answer_of(row) for row in rows(split))
        assert all(re.search(rf"{name}", text) for name in kinds(split))


def test_no_type_is_named_after_a_kind_of_another_split() -> None:
    for split in SPLITS:
        foreign = [name for other in SPLITS if other != split for name in kinds(other)]
        for row in rows(split):
            for declared in NAMED.findall(question_of(row) + "\n" + answer_of(row)):
                assert declared not in foreign, row["messages"]


@pytest.mark.parametrize("tag", WORDINGS)
def test_an_intent_has_many_wordings(tag: str) -> None:
    """Sentences without code, with what the answer repeats and every number blanked."""
    seen = Counter(worded(row) for row in everyday("train") if tag in row["tags"])
    assert len(seen) >= WORDINGS[tag]
    assert seen.most_common(1)[0][1] <= 0.2 * seen.total()


def worded(row: dict[str, Any]) -> str:
    repeated = set(re.findall(r"\w+", answer_of(row))) - {"interface", "type", "enum", "function", "is", "of"}
    sentences = [line for line in question_of(row).splitlines() if line and not CODE.match(line)]
    words = re.findall(r"[a-z]+", " ".join(sentences).casefold())
    return " ".join(word for word in words if word not in {name.casefold() for name in repeated})


def test_questions_are_typed_as_people_type() -> None:
    asked = [question_of(row) for row in everyday("train")]
    polite = sum(
        bool(re.search(r"please|pls|thanks|thx|could you|can you|hey|hi,", text, re.I)) for text in asked
    )
    lower = sum(text[0].islower() for text in asked)
    questions = sum("?" in text for text in asked)
    assert 0.04 < polite / len(asked) < 0.3
    assert 0.25 < lower / len(asked) < 0.75
    assert questions / len(asked) > 0.1


def test_easy_rows_are_the_most_and_every_level_is_there() -> None:
    levels = Counter(row["level"] for row in everyday("train"))
    total = levels.total()
    assert levels[1] / total > 0.42
    assert levels[2] / total > 0.3
    assert 0.1 < (levels[3] + levels[4]) / total < 0.3
    assert levels[4] / total > 0.02


def test_rows_are_short() -> None:
    assert all(len(answer_of(row)) <= 320 for split in SPLITS for row in rows(split))
    assert sum(len(question_of(row)) for row in rows("train")) / len(rows("train")) < 200
