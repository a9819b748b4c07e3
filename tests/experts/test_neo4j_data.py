"""What the data of expert-neo4j promises: many worlds, none in two splits, many wordings, people's typing."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import (
    answer_of,
    answers_of,
    question_of,
    questions_of,
    within_tokens,
)

EXPERT = Path(__file__).resolve().parents[2] / "experts" / "expert-neo4j"
DATA = EXPERT / "generator" / "data"
SPLITS = ("train", "validation", "test")
FILES = {
    "train": ("worlds_work.txt", "worlds_culture.txt", "worlds_places.txt", "worlds_systems.txt"),
    "validation": ("worlds_validation.txt",),
    "test": ("worlds_test.txt",),
}
NODE = re.compile(r"(\w+(?:\|\w+)*)\*? .+: (.+)")
EDGE = re.compile(r"([A-Z_|]+) \w+[>~]\w+: .+")
# How the answers of common intents look, and in how many ways each is asked at least.
INTENTS = {
    "list": (r"MATCH \(a:\w+\)( WHERE .+)? RETURN a\.\w+", 60),
    "count": (r"MATCH \(a:\w+\)( WHERE .+)? RETURN count\(a\)", 60),
    "aggregate": (r"MATCH \(a:\w+\)( WHERE .+)? RETURN (avg|sum|min|max)\(a\.\w+\)", 60),
    "first": (r"MATCH \(a:\w+\)( WHERE .+)? RETURN a\.\w+ ORDER BY .+ LIMIT \d", 60),
    "linked": (r"MATCH \(a:\w+\)-\[:\w+\]->\(b:\w+\) WHERE \w\.\w+ = '[^']+' RETURN DISTINCT \w\.\w+", 100),
    "linked count": (r"MATCH \(a:\w+\)-\[:\w+\]->\(b:\w+\) WHERE \w\.\w+ = '[^']+' RETURN count\(\w\)", 40),
    "per category": (r"MATCH \(a:\w+\)( WHERE .+)? RETURN a\.\w+, \w+\(.+\)", 40),
    "per node": (r"MATCH .+\]->\(b:\w+\) RETURN \w\.\w+, count\(\w\)", 25),
    "absent": (r".+ WHERE NOT EXISTS .+", 25),
    "most": (r".+ WITH \w, count\(\w\) AS n RETURN .+ ORDER BY n.* LIMIT \d", 25),
}
# Words that every question may have, whatever it is about; the rest are of its world.
COMMON = frozenset(
    """
    a all among and any are at average avg be by can combined could count descending different
    distinct do does each every exist fewest find first for from get give group has have having hey
    hi highest how i in is it list lowest many max maximum me mean min minimum more most much name
    names need no none number of on one only order ordered over per please show sort sorted
    than that the their them there thx to top total unique we what when where which who with without
    you your
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Names:
    labels: frozenset[str]
    types: frozenset[str]


@cache
def rows(split: str) -> list[dict[str, Any]]:
    text = (EXPERT / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def worlds(split: str) -> tuple[Names, ...]:
    texts = [(DATA / name).read_text(encoding="utf-8") for name in FILES[split]]
    blocks = [block for text in texts for block in text.split("\n# ")[1:]]
    return tuple(_names(block.splitlines()[1:]) for block in blocks)


def _names(lines: list[str]) -> Names:
    edges = [found[1] for line in lines if (found := EDGE.match(line))]
    nodes = [found[1] for line in lines if not EDGE.match(line) and (found := NODE.match(line))]
    return Names(
        frozenset(name for node in nodes for name in node.split("|")),
        frozenset(name for edge in edges for name in edge.split("|")),
    )


def labels_of(split: str) -> set[str]:
    return {label for world in worlds(split) for label in world.labels}


def types_of(split: str) -> set[str]:
    return {name for world in worlds(split) for name in world.types}


def fields(name: str) -> set[str]:
    """What the properties of a file are called in schemas."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return {field for line in lines if not line.startswith("#") for field in line.split(" | ")[1].split()}


def generated(split: str) -> list[dict[str, Any]]:
    """Rows that are neither written by hand nor literal: those have separate graphs."""
    return [row for row in rows(split) if row["tags"][0] not in ("written", "literal")]


def asked(split: str) -> list[tuple[str, str]]:
    """Every generated question without its schema, and its answer."""
    return [
        (question.rsplit("\n", 1)[-1], answer)
        for row in generated(split)
        for question, answer in zip(questions_of(row), answers_of(row), strict=True)
    ]


def test_there_are_many_worlds_of_two_to_four_labels() -> None:
    assert len(worlds("train")) >= 150
    assert len(worlds("validation")) >= 10
    assert len(worlds("test")) >= 15
    for split in SPLITS:
        assert all(world.labels and world.types for world in worlds(split))


@pytest.mark.parametrize(
    ("one", "other"), [("train", "validation"), ("train", "test"), ("validation", "test")]
)
def test_no_label_and_no_relationship_type_is_in_two_splits(one: str, other: str) -> None:
    assert not labels_of(one) & labels_of(other)
    assert not types_of(one) & types_of(other)


def test_held_out_properties_are_none_of_training() -> None:
    assert len(fields("properties.txt")) > 300
    assert not fields("properties.txt") & fields("properties_held.txt")


def test_every_world_is_used_and_rows_keep_to_their_own() -> None:
    for split in SPLITS:
        used = {label for _, answer in asked(split) for label in re.findall(r"[(]\w*:(\w+)", answer)}
        assert used <= labels_of(split)
        assert all(world.labels & used for world in worlds(split))


@pytest.mark.parametrize("intent", INTENTS)
def test_an_intent_has_many_wordings(intent: str) -> None:
    """Words of the world, values and numbers are blanked."""
    form, least = INTENTS[intent]
    seen = Counter(worded(question) for question, answer in asked("train") if re.fullmatch(form, answer))
    assert len(seen) >= least
    assert seen.most_common(1)[0][1] <= 0.2 * seen.total()


def worded(question: str) -> str:
    words = [word if word in COMMON else "_" for word in re.findall(r"[a-z]+", question.casefold())]
    return re.sub(r"_( _)+", "_", " ".join(words))


def test_questions_are_typed_as_people_type() -> None:
    texts = [question for question, _ in asked("train")]
    polite = sum(
        bool(re.search(r"please|pls|thanks|thx|could you|can you|hey|hi,", text, re.I)) for text in texts
    )
    assert 0.05 < polite / len(texts) < 0.35
    assert 0.25 < sum(text[0].islower() for text in texts) / len(texts) < 0.75
    assert 0.1 < sum(text.endswith("?") for text in texts) / len(texts) < 0.5


def test_schemas_are_written_in_several_ways() -> None:
    schemas = [
        question_of(row) if len(row["messages"]) == 3 else questions_of(row)[0] for row in rows("train")
    ]
    for mark in (
        r"^\(:\w+ \{\w+:\w",
        r"^\(:\w+ \{\w+: \w",
        "^Node properties:",
        r"^\w+\(\w+, ",
        "^Nodes:",
        " // ",
    ):
        assert sum(bool(re.search(mark, schema)) for schema in schemas) > 0.03 * len(schemas)
    names = [name for schema in schemas for name in re.findall(r"[{(,] ?(\w+)", schema)]
    assert any("_" in name and name.islower() for name in names)
    assert any(re.search("[a-z][A-Z]", name) for name in names)


def test_easy_rows_are_the_most_and_every_level_is_there() -> None:
    for split in ("validation", "test"):
        levels = Counter(row["level"] for row in rows(split))
        assert levels[1] / levels.total() > 0.45
        assert levels[2] / levels.total() > 0.25
        assert 0.08 < (levels[3] + levels[4]) / levels.total() < 0.3
    assert {row["level"] for row in rows("test")} == {1, 2, 3, 4}


def test_training_rows_are_conversations_and_all_their_answers_are_learnt() -> None:
    turns = Counter(len(answers_of(row)) for row in generated("train"))
    assert set(turns) == {1, 3, 4, 5}
    assert 0.15 < turns[1] / turns.total() < 0.4
    assert all(len(answers_of(row)) == 1 for row in generated("train") if row["level"] == 4)
    manifest = json.loads((EXPERT / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["training"]["dataset"]["train_on"] == "assistant"
    assert all(len(row["messages"]) == 3 for split in ("validation", "test") for row in rows(split))


def test_rows_are_short() -> None:
    for split in ("validation", "test"):
        assert all(len(question_of(row)) <= 640 and len(answer_of(row)) <= 240 for row in rows(split))
    assert all(sum(map(len, (*questions_of(row), *answers_of(row)))) < 1900 for row in rows("train"))


def test_every_training_row_fits_into_the_tokens_of_the_embedded_base(embedded_length: int) -> None:
    fits = within_tokens(embedded_length)
    assert all(fits(row["messages"]) for row in rows("train"))
    assert not within_tokens(500)(
        max((row["messages"] for row in rows("train")), key=lambda it: len(str(it)))
    )
