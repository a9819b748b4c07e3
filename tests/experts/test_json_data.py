"""What expert-json's data promises: many worlds, many wordings, separate worlds for each split."""

import configparser
import csv
import importlib
import importlib.util
import json
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml

from expert_worker.evaluate.authoring.draw import Draw

EXPERT = Path(__file__).resolve().parents[2] / "experts" / "expert-json"
SPLITS = ("train", "validation", "test")
COMMON = (
    "extract",
    "compose",
    "convert",
    "repair",
    "pick",
    "drop",
    "rename",
    "update",
    "pluck",
    "filter",
    "schema",
)
RECORD = {
    "name": "Ada Lopez",
    "age": 36,
    "rate": 12.5,
    "paid": True,
    "code": "A-1",
    "time": "14:05",
    "note": "yes",
}
TEXTS = {key: value for key, value in RECORD.items() if isinstance(value, str)}


@cache
def generator(module: str) -> ModuleType:
    """Under another name: every expert has a package `generator`."""
    name = "expert_json_generator"
    if name not in sys.modules:
        folder = EXPERT / "generator"
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{name}.{module}")


@cache
def rows(split: str) -> list[dict[str, Any]]:
    lines = (EXPERT / "datasets" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def questions(split: str) -> list[str]:
    return [row["messages"][1]["content"] for row in rows(split)]


def worlds(split: str) -> Any:
    return generator("worlds").worlds(split)


def test_there_are_more_than_150_worlds_to_train_on() -> None:
    assert len(worlds("train")) >= 150
    assert len({world.noun for split in SPLITS for world in worlds(split)}) == sum(
        len(worlds(s)) for s in SPLITS
    )
    for split in SPLITS:
        for world in worlds(split):
            assert len(world.fields) >= 6 and len(world.sentences) >= 2, world.noun


def test_a_sentence_names_fields_of_its_world() -> None:
    for split in SPLITS:
        for world in worlds(split):
            names = {field.names[0] for field in world.fields}
            for sentence in world.sentences:
                assert set(re.findall(r"\{(\w+)\}", sentence)) <= names, (world.noun, sentence)


def test_words_of_a_world_cannot_be_taken_for_numbers() -> None:
    for split in SPLITS:
        for world in worlds(split):
            for field in world.fields:
                words = field.kind.removeprefix("list:").split("|") if "|" in field.kind else []
                assert not [word for word in words if re.fullmatch(r"-?\d+(\.\d+)?", word)], (
                    world.noun,
                    field.names,
                )


def test_splits_share_no_world_no_set_of_keys_and_no_name_of_a_person() -> None:
    def keys(split: str) -> set[frozenset[str]]:
        return {frozenset(field.names[0] for field in world.fields) for world in worlds(split)}

    pools = generator("pools")
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not keys(one) & keys(other)
    for kind in pools.TRAIN:
        assert not set(pools.TRAIN[kind]) & set(pools.HELD[kind])


def test_most_keys_of_the_held_worlds_are_not_in_training() -> None:
    trained = {name for world in worlds("train") for field in world.fields for name in field.names}
    for split in ("validation", "test"):
        held = {field.names[0] for world in worlds(split) for field in world.fields}
        assert len(held - trained) > 0.9 * len(held)


@pytest.mark.parametrize("intent", COMMON)
def test_a_common_intent_has_many_wordings(intent: str) -> None:
    wording = generator("wording")
    assert len(wording.wordings()[intent]) >= 10
    slots = set(re.findall(r"\{(\w+)\}", "".join(wording.wordings()[intent]))) - {"payload"}
    filled = {slot: f"<{slot}>" for slot in slots}
    typed = Counter(
        wording.request(intent, Draw(f"{intent}/{turn}"), "(payload)", **filled) for turn in range(500)
    )
    assert len(typed) > 250
    assert typed.most_common(1)[0][1] < 0.12 * typed.total()


def test_no_wording_keeps_a_choice_or_a_slot() -> None:
    for patterns in generator("wording").wordings().values():
        for pattern in patterns:
            left = generator("wording").chosen(pattern, Draw(pattern))
            brackets = re.findall(r"\(([^()]*)\)", left)
            assert all("{" in inside for inside in brackets), pattern
    for split in SPLITS:
        for question in questions(split):
            assert not re.search(
                r"\{(?:payload|keys|noun|nouns|source|facts|condition)\}|[\ue000-\uf8ff]", question
            )


def test_people_type_in_many_ways() -> None:
    typed = questions("train")
    shares = {
        "polite": sum(
            bool(re.search(r"\b(please|pls|thanks|thx|could you|can you)\b", q, re.I)) for q in typed
        ),
        "small": sum(q[0].islower() for q in typed),
        "asked": sum("?" in q for q in typed),
        "lines": sum("\n" in q for q in typed),
        "after": sum(q[0] in "[{" for q in typed),
        "arrow": sum("->" in q or "=>" in q for q in typed),
    }
    assert all(share > 0.03 * len(typed) for share in shares.values()), shares
    assert sum(len(q) for q in typed) / len(typed) < 250


def test_easy_intents_are_more_frequent_than_rare_ones() -> None:
    levels = Counter(row["level"] for row in rows("train") if row["tags"][0] not in ("written", "literal"))
    assert 0.45 < levels[1] / levels.total() < 0.55
    assert 0.28 < levels[2] / levels.total() < 0.42
    assert levels[3] > 400 / 4800 * levels.total() and levels[4] > 30 / 2400 * levels.total()


def test_broken_json_does_not_parse_and_its_answer_does() -> None:
    """Whole texts are tried: the payload may stand on the same line as the request."""
    for row in rows("train"):
        tag, question = row["tags"][0], row["messages"][1]["content"]
        if tag.startswith("repair-") and tag not in ("repair-escaped", "repair-wrapped"):
            parts = [question, *re.split(r"\n\n?|: ", question, maxsplit=1)]
            assert not any(part.startswith(("{", "[")) and _parses(part) for part in parts), question
        json.loads(row["messages"][2]["content"])


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_formats_read_back_as_what_they_were_made_of() -> None:
    formats, draw = generator("formats"), Draw("formats")
    nested = {"one": RECORD, "some": ["a", "on", "14:05"], "none": None}
    assert yaml.safe_load(formats.yaml(nested)) == nested
    assert yaml.safe_load(formats.yaml_list([RECORD, RECORD])) == [RECORD, RECORD]
    assert tomllib.loads(formats.toml(RECORD)) == RECORD
    assert list(csv.DictReader(formats.delimited([TEXTS, {**TEXTS, "name": "a,b"}], ",").splitlines())) == [
        TEXTS,
        {**TEXTS, "name": "a,b"},
    ]
    for _ in range(8):
        assert dict(parse_qsl(formats.query({**TEXTS, "note": "a+b & c"}, draw).lstrip("?"))) == {
            **TEXTS,
            "note": "a+b & c",
        }
        found = ElementTree.fromstring(formats.xml("item", {**TEXTS, "note": "a < b"}, draw))
        assert {part.tag: part.text for part in found} == {**TEXTS, "note": "a < b"}
    parser = configparser.ConfigParser()
    parser.read_string(formats.ini("main", TEXTS))
    assert dict(parser["main"]) == TEXTS


def test_every_answer_is_shorter_than_the_manifest_lets_it_be() -> None:
    manifest = json.loads((EXPERT / "manifest.json").read_text(encoding="utf-8"))
    most = manifest["training"]["decoding"]["max_new_tokens"] if "decoding" in manifest["training"] else None
    longest = max(len(row["messages"][2]["content"]) for split in SPLITS for row in rows(split))
    # A token of JSON is two characters or more.
    assert most is not None and longest <= 2.3 * most
