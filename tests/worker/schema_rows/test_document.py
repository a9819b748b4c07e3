"""The schema that a file, or a part of it, stands for."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from expert_worker.errors import BadInput
from expert_worker.schema_rows.__main__ import main
from expert_worker.schema_rows.document import read_document
from expert_worker.schema_rows.payload import read_schema

OBJECT = {"type": "object", "properties": {"name": {"type": "string"}}}
SCHEMAS: dict[str, Any] = {
    "Order": {
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}},
            "state": {"$ref": "#/components/schemas/Item/properties/state"},
            "note": {"type": "string", "nullable": True},
            "parent": {"$ref": "#/components/schemas/Order"},
        },
    },
    "Item": {
        "type": "object",
        "required": ["sku", "count"],
        "properties": {
            "sku": {"type": "string"},
            "count": {
                "type": "integer",
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 90,
                "exclusiveMaximum": False,
            },
            "state": {"$ref": "#/components/schemas/State"},
        },
    },
    "State": {"type": "string", "enum": ["new", "sent"]},
    "Unused": OBJECT,
    "a/b~c": {"title": "Odd name", **OBJECT},
}
API = {
    "openapi": "3.0.3",
    "paths": {"/orders": {"post": {"schema": {"$ref": "#/components/schemas/Order"}}}},
    "components": {"schemas": SCHEMAS},
}


def read(document: object, part: str | None = None) -> Any:
    return read_document(json.dumps(document).encode(), "api.json", part)


@pytest.mark.parametrize(
    "part",
    ["Order", "/components/schemas/Order", "/paths/~1orders/post/schema"],
    ids=["name", "pointer", "path"],
)
def test_a_part_stands_alone_with_what_it_refers_to(part: str) -> None:
    document = read(API, part)
    copy = json.loads(document.copy)
    assert copy == document.schema
    assert copy["title"] == "Order"
    assert "Unused" not in copy["components"]["schemas"] and "paths" not in copy
    validator = Draft202012Validator(copy)
    Draft202012Validator.check_schema(copy)
    whole = {"items": [{"sku": "a", "count": 1, "state": "sent"}], "state": "new", "note": None}
    assert validator.is_valid(whole) and validator.is_valid({**whole, "parent": whole})
    for wrong in ({"count": 0}, {"count": 91}, {"state": "gone"}):
        assert not validator.is_valid({"items": [{"sku": "a", "count": 1, **wrong}]})
    assert not validator.is_valid({**whole, "parent": {"items": 3}}) and not validator.is_valid(
        {**whole, "state": 1}
    )


def test_references_are_percent_encoded() -> None:
    """Springdoc and NSwag name schemas of generic types so."""
    page = {"type": "object", "properties": {"orders": {"$ref": "#/components/schemas/Page%3CA~1B%3E"}}}
    api = {"openapi": "3.1.0", "components": {"schemas": {"Page<A/B>": OBJECT, "Wrap": page}}}
    document = read(api, "Wrap")
    assert document.schema["components"]["schemas"] == {"Page<A/B>": OBJECT}
    payload = read_schema(document)
    assert list(payload.root.parts) == ["orders"]
    assert Draft202012Validator(document.schema).is_valid({"orders": {"name": "a"}})


def test_what_a_part_refers_to_adds_no_properties_to_it() -> None:
    address = {"type": "object", "properties": {"city": {"$ref": "#/properties/town"}}, "required": ["city"]}
    order = {
        "type": "object",
        "properties": {"to": {"$ref": "#/properties/billing"}, "town": {"$ref": "#/allOf/0/properties/town"}},
        "additionalProperties": False,
    }
    town = {"type": "string", "enum": ["Rome"]}
    document = {
        "properties": {"billing": address, "town": {"type": "string"}},
        "allOf": [{"properties": {"town": town}}],
        "$defs": {"Order": order, "town": {}, "Second": {"allOf": [town]}},
    }
    found = read(document, "Order").schema
    assert list(found["properties"]) == ["to", "town"] and "allOf" not in found
    assert set(found["$defs"]) == {"billing", "town-2", "town-3"}
    validator = Draft202012Validator(found)
    assert validator.is_valid({"to": {"city": "any"}, "town": "Rome"})
    assert not validator.is_valid({"to": {}}) and not validator.is_valid({"town": "any"})
    assert list(read_schema(read(document, "Order")).root.parts) == ["to", "town"]
    part = {"properties": {"town": {"$ref": "#/$defs/Second/allOf/0"}}}
    assert read({**document, "items": part}, "/items").schema["$defs"] == {"0": town}


def test_a_reference_leads_through_lists() -> None:
    schema = {
        **OBJECT,
        "properties": {"a": {"$ref": "#/allOf/0/properties/b"}},
        "allOf": [{"properties": {"b": {"type": "string"}}}],
    }
    assert list(read_schema(read(schema)).root.parts) == ["a", "b"]


def test_names_of_definitions_wherever_they_are() -> None:
    assert read({"definitions": {"A": OBJECT}}, "A").schema == {"title": "A", **OBJECT}
    assert read({"$defs": {"A": OBJECT}, **OBJECT}, "A").schema == {"title": "A", **OBJECT}
    assert read(API, "a/b~c").schema["title"] == "Odd name"
    assert (
        read({"items": [{"schema": OBJECT}]}, "/items/0/schema").schema["properties"] == OBJECT["properties"]
    )


@pytest.mark.parametrize(
    ("document", "part", "message", "hint"),
    [
        (API, None, "an OpenAPI document", "--schema 'api.json#Order' (others: Item, State, Unused, a/b~c)"),
        ({"$defs": {"A": OBJECT}}, None, "several definitions", "--schema 'api.json#A'."),
        (API, "order", "no schema 'order'", "'api.json#Order'"),
        (API, "/components/schemas/None", "no schema", "'api.json#Order'"),
        (API, "/openapi", "no schema", "'api.json#Order'"),
        (OBJECT, "A", "no schema 'A'", "one object with `properties`"),
        ({"$defs": {f"N{number}": OBJECT for number in range(20)}}, None, "several", "N7, ...)"),
    ],
)
def test_a_missing_part_is_named_with_what_there_is(
    document: object, part: str | None, message: str, hint: str
) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read(document, part)
    assert hint in str(refused.value.hint)


def test_a_large_document_says_what_there_is() -> None:
    with pytest.raises(BadInput, match="an OpenAPI document"):
        read({**API, "info": {"description": "x" * (2 << 20)}})
    with pytest.raises(BadInput, match="more than 1 MiB"):
        read({**OBJECT, "description": "x" * (2 << 20)})


def test_half_a_character_is_written_as_it_was() -> None:
    document = read({"$defs": {"A": {**OBJECT, "description": "\ud83d"}}}, "A")
    assert json.loads(document.copy) == document.schema


def test_a_chain_of_references_that_has_no_end() -> None:
    reference = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}
    with pytest.raises(BadInput, match="leads to itself"):
        read_schema(read({"$defs": reference}, "A"))


OPENAPI_YAML = b"""\
openapi: 3.0.3
paths:
  /orders:
    get: {responses: {200: {description: ok}}}
components:
  schemas:
    Order:
      type: object
      required: [placed_on]
      properties:
        placed_on: {type: string, enum: [2024-01-31, no, on]}
        count: {type: integer, minimum: 010, maximum: 1e3}
        share: {type: number, maximum: .5}
        gift: {type: boolean, default: True, nullable: true}
        note: {type: string, default: ~}
"""


@pytest.mark.parametrize("name", ["api.yaml", "API.YML"])
def test_yaml_has_the_values_of_version_1_2(name: str) -> None:
    document = read_document(OPENAPI_YAML, name, "Order")
    properties = document.schema["properties"]
    assert properties["placed_on"]["enum"] == ["2024-01-31", "no", "on"]
    assert (properties["count"]["minimum"], properties["count"]["maximum"]) == (10, 1000.0)
    assert properties["share"]["maximum"] == 0.5
    assert properties["gift"] == {"type": ["boolean", "null"], "default": True}
    assert properties["note"]["default"] is None
    assert json.loads(document.copy) == document.schema
    response = read_document(OPENAPI_YAML, name, "/paths/~1orders/get/responses/200").schema
    assert response["description"] == "ok"
    with pytest.raises(BadInput, match="an OpenAPI document"):
        read_document(OPENAPI_YAML, name)


def test_a_yaml_schema_is_written_as_json() -> None:
    document = read_document(b"type: object\nproperties: {name: {type: string}}\n", "parcel.yaml")
    assert json.loads(document.copy) == document.schema == {"title": "parcel", **OBJECT}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", "line 2: aliases"),
        ("a: 1\nb: [1", "line 2: "),
        ("a: !!python/object/apply:os.system ['true']", "line 1: could not determine a constructor"),
        ("- a", "not one object"),
        ("a: " + "[" * 100_000, "not YAML|nested"),
        ("a: " + "x" * (2 << 20), "more than 2 MiB"),
    ],
)
def test_yaml_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_document(text.encode(), "api.yaml")


def test_the_copy_makes_the_same_rows(tmp_path: Path) -> None:
    """Texts name the object after the file where the schema has no title, so the copy gets one."""
    sources = {"parcel.json": (OBJECT, None), "api.json": (API, "Order")}
    for name, (document, part) in sources.items():
        source, folder = tmp_path / name, tmp_path / f"of-{name}"
        source.write_text(json.dumps(document, indent=4))
        copy = folder / "schema.json"
        more = ["--part", part] if part else []
        settings = ["--rows", "40", "--output"]
        assert (
            main(["--schema", str(source), *more, "--copy", str(copy), *settings, str(folder / "rows")]) == 0
        )
        assert main(["--schema", str(copy), *settings, str(folder / "again")]) == 0
        for split in ("train", "validation", "test"):
            one, again = ((folder / rows / f"{split}.jsonl").read_bytes() for rows in ("rows", "again"))
            assert one == again
    assert (tmp_path / "of-parcel.json" / "schema.json").read_text() == (
        tmp_path / "parcel.json"
    ).read_text().replace("{", '{\n    "title": "parcel",', 1)


def test_a_file_with_a_title_is_copied_as_it_is() -> None:
    data = b'\xef\xbb\xbf{ "title": "Order",\r\n  "properties": {"a": {"type": "string"}}}'
    assert read_document(data, "api.json").copy == data
    empty = read_document(b'{"title": "", "properties": {"a": {"type": "string"}}}', "api.json")
    assert json.loads(empty.copy) == empty.schema and empty.schema["title"] == "api"
    untitled = read_document('{"properties": {"ä": {"type": "string"}}}'.encode("utf-16"), "api.json")
    assert json.loads(untitled.copy) == {"title": "api", "properties": {"ä": {"type": "string"}}}
