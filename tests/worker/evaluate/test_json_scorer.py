"""JSON is right when it means the same, and a schema when it accepts the same."""

import json
from typing import Any

import pytest

from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers.json import JsonScorer

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 3}}, "required": ["age"]}
INSTANCES: list[Any] = [{"age": 3}, {"age": 2}, {"age": "3"}, {}, {"age": 4, "x": 1}, []]


def verdict(gold: Any, answer: str, instances: list[Any] | None = None) -> tuple[bool, str]:
    said = judged(JsonScorer(), {"completion": json.dumps(gold), "instances": instances or []}, answer)
    return said.correct, said.reason


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ({"a": 1, "b": [True, None]}, '{"b":[true,null],"a":1.0}'),
        ({"a": "x"}, 'Here it is:\n```json\n{"a": "x"}\n```\nDone.'),
        ([1, {"b": "}"}], 'Sure: [1, {"b": "}"}] as asked'),
    ],
)
def test_the_same_meaning_is_right(gold: Any, answer: str) -> None:
    assert verdict(gold, answer) == (True, "")


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ({"a": 1}, '{"a": true}', "a is true instead of 1"),
        ({"a": [1, {"b": 2}]}, '{"a": [1, {"b": "2"}]}', 'a[1].b is "2" instead of 2'),
        ({"a": 1}, '{"a": 1, "b": 2}', "['a', 'b'] instead of ['a']"),
        ({"a": 1}, '{"a": 1, "a": 1}', "a key occurs twice"),
        ({"a": 1}, '{"a": NaN}', "NaN is not JSON"),
        ({"a": 1}, "", "not JSON"),
        ({"a": 1}, "{'a': 1}", "not JSON"),
        ([1, 2], "[2, 1]", "[0] is 2 instead of 1"),
        ({"a": 1}, '{"a": 1} or {"a": 2}', "several different JSON values"),
        ({"a": 1}, '{"a": 1e400}', "1e400 is out of range"),
        ({"a": 1}, '{"a": -1e999}', "-1e999 is out of range"),
    ],
)
def test_a_difference_is_named(gold: Any, answer: str, reason: str) -> None:
    correct, said = verdict(gold, answer)
    assert not correct
    assert reason in said


def test_another_schema_that_accepts_the_same_is_right() -> None:
    other = {
        "required": ["age"],
        "properties": {"age": {"type": "integer", "exclusiveMinimum": 2}},
        "type": ["object"],
    }
    assert verdict(SCHEMA, json.dumps(other), INSTANCES) == (True, "")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"type": "object"}, "wrongly accepts"),
        ({**SCHEMA, "additionalProperties": False}, "wrongly refuses"),
        ({"type": "thing"}, "no JSON Schema"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, "refers to what is not there"),
        ({"$ref": "file:///etc/passwd"}, "refers to what is not there"),
        ([], "a JSON Schema is an object"),
    ],
)
def test_a_schema_that_judges_otherwise_is_wrong(other: Any, reason: str) -> None:
    correct, said = verdict(SCHEMA, json.dumps(other), INSTANCES)
    assert not correct
    assert reason in said


def test_a_reference_beyond_a_double_cannot_be_used() -> None:
    said = judged(JsonScorer(), {"completion": '{"a": 1e400}'}, '{"a": 1e999}')
    assert said.failed and "the reference answer is not JSON: 1e400 is out of range" in said.reason


def test_several_values_do_not_parse() -> None:
    said = judged(JsonScorer(), {"completion": '{"a": 1}'}, '{"a": 1} or {"a": 2}')
    assert said.unparsed and JsonScorer().result_key({}, '{"a": 1} or {"a": 2}') is None


@pytest.mark.parametrize("start", ["[", '{"a":'])
def test_what_is_nested_too_deeply_to_be_read_does_not_parse(start: str) -> None:
    said = judged(JsonScorer(), {"completion": '{"a": 1}'}, start * 3_900)
    assert said.unparsed and said.reason == "nested too deeply to be read as JSON"


HOSTILE = {
    "deep list": "[" * 100_000,
    "deep object": '{"a":' * 3000,
    "unbalanced": "{" * 5_000 + "}" * 5_000,
    "huge number": "9" * 15_000,
    "megabytes": '"' + "x" * 2_000_000 + '"',
    "lone surrogate": '"\\ud800"',
    "nul": "\x00",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_json_is_only_wrong(kind: str) -> None:
    assert not verdict({"a": 1}, HOSTILE[kind])[0]
    assert not verdict(SCHEMA, HOSTILE[kind], INSTANCES)[0]
