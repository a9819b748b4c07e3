"""Texts and the objects that they mean, from a JSON Schema alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from expert_worker.errors import BadInput
from expert_worker.evaluate.scorers import find_scorer
from expert_worker.schema_rows.__main__ import main
from expert_worker.schema_rows.document import read_document
from expert_worker.schema_rows.json_rows import JsonRows
from expert_worker.schema_rows.payload import read_schema

SCHEMA = Path(__file__).parent / "ddl" / "order.json"


def made(schema: dict[str, Any], count: int, split: str = "test") -> list[dict[str, Any]]:
    payload = read_schema(read_document(json.dumps(schema).encode(), "order.json"))
    return list(JsonRows(payload, 1).rows(split, count))


@pytest.fixture(scope="module")
def order() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text())
    return found


def test_every_answer_is_valid_and_said_in_the_text(order: dict[str, Any]) -> None:
    rows = made(order, 100)
    assert len(rows) == 100
    validator, scorer = Draft202012Validator(order), find_scorer("json")
    for row in rows:
        text, answer = (row["messages"][place]["content"] for place in (1, 2))
        value = json.loads(answer)
        validator.validate(value)
        assert scorer.judge({**row, "completion": answer}, answer).correct
        assert value["customer"]["name"] in text
        assert all(str(item["quantity"]) in text for item in value["items"])
        assert "postal_code" not in answer
    assert {"fields-shown", "text-only"} <= {row["tags"][0] for row in rows}


def test_values_of_training_and_test_rows_differ(order: dict[str, Any]) -> None:
    names = [
        {json.loads(row["messages"][-1]["content"])["customer"]["name"] for row in made(order, 60, split)}
        for split in ("train", "test")
    ]
    assert len(names[0]) > 10 and not names[0] & names[1]


def test_the_same_bytes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("a", "b"):
        assert main(["--schema", str(SCHEMA), "--output", str(tmp_path / folder), "--rows", "50"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[0])
    assert said["ignored"] == {"pattern": 1, "pattern without examples": 1}
    for name in ("train", "validation", "test"):
        one, again = ((tmp_path / folder / f"{name}.jsonl").read_bytes() for folder in "ab")
        assert one == again and one


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not one object"),
        ('{"type": "string"}', "not an object with properties"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', "leads to itself"),
        ('{"properties": {" ": {"type": "string"}}}', "cannot be used"),
        ('{"properties": {"a": {"$ref": "http://x/y"}}}', "leads to another file"),
        ('{"properties": {"a": {"$ref": "#/$defs/b"}}}', "leads nowhere"),
        (
            '{"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}, "required": ["a"]}',
            "a is required",
        ),
        ('{"properties": {"a": 1}}', "not a JSON Schema: properties/a"),
        ('{"properties": {"a": {"type": "integer"}}, "required": 3}', "not a JSON Schema: required"),
        ('{"properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "http://x/y"}]}}}', "another file"),
    ],
)
def test_what_no_row_can_be_made_of_is_refused(schema: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read_schema(read_document(schema.encode(), "api.json"))
    assert refused.value.hint


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}}}
    assert made({"title": "Node", **node}, 20)


def test_a_schema_that_no_row_satisfies_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "api.json"
    path.write_text('{"properties": {"a": {"type": "integer", "not": {}}}, "required": ["a"]}')
    code = main(["--schema", str(path), "--output", str(tmp_path / "out")])
    assert code == 2
    assert "rows can be made of this schema" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
