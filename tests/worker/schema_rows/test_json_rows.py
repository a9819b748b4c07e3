"""Texts and the objects that they mean, from a JSON Schema alone."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator

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


TEXT = {"type": "string"}


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
        ('{"properties": {"a": {"type": "string", "format": "byte"}}, "required": ["a"]}', "a is required"),
        ('{"properties": {"a": {"type": "string", "minLength": 99}}, "required": ["a"]}', "a is required"),
        ('{"properties": {"a": {"type": "object", "properties": {}}}, "required": ["a"]}', "a is required"),
        ('{"properties": {"a": 1}}', "not a JSON Schema: properties/a"),
        ('{"properties": {"a": {"type": "integer"}}, "required": 3}', "not a JSON Schema: required"),
        ('{"properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "http://x/y"}]}}}', "another file"),
    ],
)
def test_what_no_row_can_be_made_of_is_refused(schema: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read_schema(read_document(schema.encode(), "api.json"))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"type": "object", "additionalProperties": TEXT}, "no value can be made", "Give it `properties`"),
        ({"type": "array", "items": TEXT, "minItems": 5}, "no value can be made", "at most 3 as `minItems`"),
        ({"type": "array"}, "no value can be made", "Give it `items`"),
        ({"type": "object", "properties": {"x": {}}}, "no value can be made", "out of `required`"),
        (None, "no property has that name", "Give it in `properties`"),
    ],
)  # fmt: skip
def test_a_required_key_without_a_value_is_refused_with_what_helps(
    given: dict[str, Any] | None, message: str, hint: str
) -> None:
    inner = {
        "type": "object",
        "properties": {"b": TEXT, **({"a": given} if given else {})},
        "required": ["a"],
    }
    schema = {"title": "Outer", "type": "object", "properties": {"order": inner, "c": TEXT}}
    read_schema(read_document(json.dumps(schema).encode(), "api.json"))
    required = json.dumps({**schema, "required": ["order"]})
    with pytest.raises(BadInput, match=f"order.a is required, and {message}") as refused:
        read_schema(read_document(required.encode(), "api.json"))
    assert hint in str(refused.value.hint)


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}}}
    assert made({"title": "Node", **node}, 20)


def objects(properties: dict[str, Any], count: int = 60, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    """The text of each row, without the shown keys, and its object."""
    rows = made({"title": "Order", "type": "object", "properties": properties, **more}, count)
    texts = [[it["content"] for it in row["messages"]] for row in rows]
    return [
        (asked[asked.startswith("fields") and asked.index("\n") + 1 :], json.loads(answer))
        for _, asked, answer in texts
    ]


def test_numbers_are_said_with_all_their_digits() -> None:
    amount = {"type": "number", "minimum": 200_000, "maximum": 1_000_000}
    for text, value in objects({"amount": amount, "shift": {"type": "number", "minimum": -1, "maximum": 1}}):
        for number in value.values():
            assert f"{number:.2f}".rstrip("0").rstrip(".") in text
            assert "-0" not in re.findall(r"\S+", text)


@pytest.mark.parametrize(
    "bounds",
    [
        {"minimum": 0, "maximum": 1.7976931348623157e308},
        {"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
        {"minimum": -(2**63), "maximum": 2**63 - 1},
        {"minimum": 0, "maximum": 10**400},
        {"minimum": 0, "maximum": 9, "multipleOf": 1e-320},
    ],
)
@pytest.mark.parametrize("kind", ["number", "integer"])
def test_bounds_of_a_type_are_not_what_people_write(bounds: dict[str, float], kind: str) -> None:
    if "multipleOf" not in bounds:
        rows = objects({"amount": {"type": kind, **bounds}, "name": TEXT}, 40)
        assert all(0 < value.get("amount", 1) < 10_000 for _, value in rows)
    else:
        assert made({"properties": {"amount": {"type": kind, **bounds}, "name": TEXT}}, 10)


@pytest.mark.parametrize(
    ("name", "kind", "bounds"),
    [
        ("amount", "integer", {"multipleOf": 10}),
        ("amount", "integer", {"multipleOf": 5, "minimum": 1}),
        ("amount", "integer", {"multipleOf": 500}),
        ("customer_id", "integer", {"minimum": 1000}),
        ("customer_id", "integer", {"exclusiveMinimum": 1000}),
        ("depth", "integer", {"maximum": -5}),
        ("depth", "integer", {"exclusiveMaximum": -5, "multipleOf": 3}),
        ("depth", "integer", {"minimum": -98, "maximum": -2, "multipleOf": 7}),
        ("depth", "integer", {"minimum": 0, "exclusiveMinimum": 500}),
        ("share", "number", {"maximum": 1}),
        ("share", "number", {"minimum": 0, "maximum": 0.04}),
        ("share", "number", {"exclusiveMinimum": 0, "exclusiveMaximum": 0.00004}),
        ("share", "number", {"minimum": -0.04, "maximum": -0.01}),
        ("share", "number", {"minimum": 0, "maximum": 0.01, "multipleOf": 0.00025}),
    ],
)
def test_numbers_within_bounds_and_multiples_differ(name: str, kind: str, bounds: dict[str, float]) -> None:
    number = {"type": kind, **bounds}
    rows = objects({name: number, "name": TEXT}, required=[name, "name"])
    values = {value[name] for _, value in rows}
    assert len(rows) == 60 and len(values) > 9
    assert all(Draft202012Validator(number).is_valid(value) for value in values)
    assert all(np.format_float_positional(value[name], trim="-") in text for text, value in rows)


@pytest.mark.parametrize(
    ("kind", "multiple"), [("number", 0.1), ("number", 0.01), ("integer", 2.5), ("integer", 0.5)]
)
def test_values_of_a_fractional_multiple_are_made_and_not_dropped(kind: str, multiple: float) -> None:
    keys = {key: {"type": kind, "multipleOf": multiple} for key in ("price", "weight", "height")}
    schema = {"title": "Order", "type": "object", "properties": keys, "required": list(keys)}
    maker = JsonRows(read_schema(read_document(json.dumps(schema).encode(), "order.json")), 1)
    rows = list(maker.rows("test", 60))
    for row in rows:
        Draft202012Validator(schema).validate(json.loads(row["messages"][-1]["content"]))
    assert len(rows) == 60 and not maker.dropped["not valid by the schema"]


@pytest.mark.parametrize(
    ("part", "helps"),
    [
        ({"enum": [["a"], ["b"]]}, "Name texts, numbers, true or false in its `enum` or `const`"),
        (
            {"type": "object", "const": {"a": 1}},
            "Name texts, numbers, true or false in its `enum` or `const`",
        ),
        ({"const": None}, "Name texts, numbers, true or false in its `enum` or `const`"),
        (
            {"type": "array", "prefixItems": [{"const": "a"}], "items": {"type": "integer"}},
            "Give it `items` in place of `prefixItems`",
        ),
    ],
)
def test_lists_and_objects_that_are_not_made_are_named_before_rows_are(
    part: dict[str, Any], helps: str
) -> None:
    others = {"name": {"type": "string"}, "city": {"type": "string"}}
    schema = {"title": "Order", "type": "object", "properties": {**others, "part": part}}
    with pytest.raises(BadInput, match="part is required, and no value can be made") as refused:
        made({**schema, "required": ["part"]}, 20)
    assert refused.value.hint.startswith(helps)
    payload = read_schema(read_document(json.dumps(schema).encode(), "order.json"))
    assert list(payload.root.parts) == ["name", "city"]
    assert payload.ignored == {"property without a type that can be made": 1}


def test_bounds_far_from_zero_are_kept() -> None:
    far = {"type": "integer", "minimum": 1_600_000_000, "maximum": 2_000_000_000}
    low = {"type": "integer", "minimum": -2_000_000_000, "maximum": -5}
    for _, value in objects({"at": far, "depth": low}, 20):
        assert value.get("at", 1_600_000_000) >= 1_600_000_000 and -10_000_010 < value.get("depth", -5) <= -5


def test_objects_of_a_list_and_nested_ones_differ_in_the_text() -> None:
    address = {"type": "object", "properties": {"city": TEXT, "zip": TEXT}}
    party = {"type": "object", "properties": {"name": TEXT, "address": address}}
    item = {"type": "object", "properties": {"sku": TEXT, "quantity": {"type": "integer"}, "name": TEXT}}
    lists = {"items": {"type": "array", "items": item}}
    unsaid = 0
    for text, value in objects({"name": TEXT, "customer": party, "supplier": party, **lists}, 200):
        said = text.lower()
        for side in ("customer", "supplier"):
            inner = value.get(side, {})
            unsaid += sum(f"{side} address {key}" not in said for key in inner.get("address", {}))
            unsaid += "name" in inner and f"{side} name" not in said
        items = value.get("items", [{"sku": ""}])
        assert len({tuple(it) for it in items}) == 1 and all(items)
        if "items" in value and "\n" not in text and "name" in value:
            # A name behind the list would be that of one more item.
            assert said.index(value["name"].lower()) < said.rindex("item")
    # One text in sixteen has a typing error.
    assert unsaid < 20


def test_an_object_within_itself_is_followed_once() -> None:
    node = {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#"}}, "parent": {"$ref": "#"}}

    def depth(value: object) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return isinstance(value, dict) + max(map(depth, inner), default=0)

    found = {depth(value) for _, value in objects(node)}
    assert found == {1, 2}


def test_texts_are_as_long_as_the_schema_says() -> None:
    code = {"type": "string", "minLength": 2, "maxLength": 2}
    properties = {"countryCode": code, "name": {**TEXT, "maxLength": 12}, "iban": {**TEXT, "minLength": 20}}
    rows = objects(properties, required=["countryCode", "name", "iban"])
    assert len(rows) == 60
    assert all(len(it["countryCode"]) == 2 and len(it["name"]) <= 12 for _, it in rows)
    trained = made({"title": "Order", "properties": properties, "required": ["countryCode"]}, 60, "train")
    codes = {json.loads(row["messages"][-1]["content"])["countryCode"] for row in trained}
    assert not codes & {it["countryCode"] for _, it in rows}


FORMATS = {
    "ipv4": r"10(\.\d+){3}", "ipv6": "2001:db8::[0-9a-f]+:[0-9a-f]+", "duration": "P(T\\d+[HM]|\\d+D)",
    "hostname": r"www\.\w+\.example", "idn-email": r"\w+@mail\.example", "uri-reference": r"https://www\.\w+\.example",
}  # fmt: skip


def test_formats_have_values_of_their_form_or_none() -> None:
    properties = {name: {"type": "string", "format": name} for name in FORMATS}
    for _, value in objects(properties, 30):
        assert all(re.fullmatch(FORMATS[key], it) for key, it in value.items())
    unknown = {"title": "A", "properties": {"a": {**TEXT, "format": "byte"}, "b": TEXT}}
    payload = read_schema(read_document(json.dumps(unknown).encode(), "a.json"))
    assert list(payload.root.parts) == ["b"] and sum(payload.ignored.values()) == 1


@pytest.mark.parametrize("values", [[True, False, "auto"], ["auto", True, 3], [False, 0, 1]])
def test_values_of_several_types_are_said_as_they_are(values: list[Any]) -> None:
    found = objects({"mode": {"enum": values}, "name": TEXT}, 60)
    assert {json.dumps(value["mode"]) for _, value in found if "mode" in value} == set(
        map(json.dumps, values)
    )
    for text, value in found:
        if "mode" in value:
            said = value["mode"] if isinstance(value["mode"], str) else json.dumps(value["mode"])
            assert re.search(rf"mode\W+(?:is )?{said}\b", text, re.IGNORECASE), (text, value)


FLAT = {"properties": {f"key_of_an_order_{place}": TEXT for place in range(60)}}


@pytest.mark.parametrize(
    ("schema", "reason", "hint"),
    [
        (
            {"properties": {"a": {"type": "integer", "not": {}}}, "required": ["a"]},
            "4,500 not valid by the schema",
            "depend less on each other",
        ),
        (FLAT, "4,500 with an answer longer than 400 characters", "fewer keys: an answer has at most 400"),
        ({"properties": {"a": {"type": "boolean"}}}, "asked before", "more of names, numbers"),
    ],
)
def test_a_schema_of_too_few_rows_is_refused_with_what_helps(
    schema: dict[str, Any], reason: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "api.json"
    path.write_text(json.dumps(schema))
    code = main(["--schema", str(path), "--output", str(tmp_path / "out")])
    assert code == 2
    said, _, hinted = " ".join(capsys.readouterr().err.split()).partition("hint: ")
    assert "rows can be made of this schema; dropped: " in said and reason in said
    assert hint in hinted
    assert not (tmp_path / "out").exists()


PAYMENT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Payment",
    "properties": {
        "card": TEXT,
        "cvv": {"type": "integer", "minimum": 100, "maximum": 999},
        "amount": {"type": "integer"},
        "place": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]},
    },
    "dependencies": {"card": ["cvv"]},
}


def test_answers_are_valid_by_the_draft_that_the_schema_names() -> None:
    values = [json.loads(row["messages"][-1]["content"]) for row in made(PAYMENT, 60)]
    assert any("card" in it for it in values) and any("card" not in it for it in values)
    assert all(Draft7Validator(PAYMENT).is_valid(it) for it in values)
    price = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 4}
    old = {"$schema": "https://json-schema.org/draft-04/schema", "properties": {"price": price, "name": TEXT}}
    values = [json.loads(row["messages"][-1]["content"]) for row in made(old, 60)]
    assert all(Draft4Validator(old).is_valid(it) for it in values)
    assert {it["price"] for it in values if "price" in it} == {1, 2, 3, 4}


def test_a_definition_is_of_the_draft_of_its_file() -> None:
    document = {"$schema": PAYMENT["$schema"], "definitions": {"Payment": {**PAYMENT, "title": "Pay"}}}
    del document["definitions"]["Payment"]["$schema"]
    found = read_document(json.dumps(document).encode(), "api.json", "Payment")
    assert json.loads(found.copy)["$schema"] == PAYMENT["$schema"]
    rows = JsonRows(read_schema(found), 1).rows("test", 40)
    values = [json.loads(row["messages"][-1]["content"]) for row in rows]
    assert len(values) == 40 and all("cvv" in it for it in values if "card" in it)


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        (None, "not a JSON Schema: properties/place/items", "older draft"),
        ("http://[", "not a JSON Schema: properties/place/items", "one object"),
        ("http://json-schema.org/draft-03/schema#", "draft 3 of JSON Schema is not read", "one object"),
    ],
)
def test_keywords_of_other_drafts_are_refused(named: str | None, message: str, hint: str) -> None:
    schema = {**PAYMENT, "$schema": named}
    if named is None:
        del schema["$schema"]
    with pytest.raises(BadInput, match=message) as refused:
        read_schema(read_document(json.dumps(schema).encode(), "api.json"))
    assert hint in (refused.value.hint or "")
