"""JSON Schema from a description or an example, and objects from a schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .reshape import asked
from .task import Task, compact
from .values import draw_value
from .wording import request, series
from .worlds import Field, World, keys_for

TYPE_WORDS = {
    "string": ("string", "string", "text"),
    "integer": ("integer", "integer", "int", "whole number"),
    "number": ("number", "number"),
    "boolean": ("boolean", "boolean", "bool", "true/false"),
    "array": ("array of strings", "list of strings"),
}
FEATURES = ("types", "required", "enum", "range", "length", "closed", "nested", "array")
WEIGHTS = (4.0, 5.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0)
LEVELS = {"types": 1, "required": 2, "enum": 2, "nested": 4, "array": 4}


def schema(world: World, draw: Draw) -> Task | None:
    feature = draw.weighted(FEATURES, WEIGHTS)
    fields = _fields(world, draw, feature)
    if not fields:
        return None
    keys = keys_for(fields, draw)
    optional = draw.some(fields, draw.between(0, len(fields) - 1)) if feature != "types" else fields
    if feature in ("range", "length", "enum") and draw.chance(0.5):
        optional = fields
    form = draw.one(("brackets", "adjectives", "colons"))
    properties, parts = {}, []
    for place, field in enumerate(fields):
        part, words = _property(field, draw, feature if place == 0 else "types")
        properties[keys[field]] = part
        needed = None if set(optional) == set(fields) else field not in optional
        parts.append(_said(keys[field], words, needed, form))
    answer: dict[str, Any] = {"type": "object", "properties": properties}
    text = series(parts, draw)
    if len(optional) < len(fields):
        answer["required"] = [keys[field] for field in fields if field not in optional]
        if not optional:
            text = series(
                [_said(keys[f], _words(f, properties[keys[f]], draw), None, form) for f in fields], draw
            )
            text += draw.one((", all required", "; all required", " (all required)"))
    if feature == "closed":
        answer["additionalProperties"] = False
        text += draw.one(("; no other keys", "; nothing else allowed", "; additionalProperties false"))
    if feature == "nested":
        outer = world.noun.replace(" ", "_")
        answer = {"type": "object", "properties": {outer: answer}}
        text = draw.one((f"an object {outer} with {text}", f"a property {outer}, an object with {text}"))
    if feature == "array":
        answer = {"type": "array", "items": answer}
    question = request(
        "schemaarray" if feature == "array" else "schema",
        draw,
        noun=world.noun,
        nouns=world.nouns,
        parts=text,
    )
    instances = _instances(world, fields, keys, draw, feature)
    return Task(question, answer, LEVELS.get(feature, 3), (f"schema-{feature}",), instances)


def _fields(world: World, draw: Draw, feature: str) -> list[Field]:
    """The first is one that the feature can show itself on."""
    tests: dict[str, Callable[[Field], bool]] = {
        "enum": lambda field: "|" in field.kind and field.type == "string",
        "range": lambda field: field.type == "integer",
        "length": lambda field: field.type == "string",
    }
    fitting = tests.get(feature)
    first = draw.some([field for field in world.fields if fitting is None or fitting(field)], 1)
    others = [field for field in world.fields if field not in first]
    return [*first, *draw.some(others, draw.between(1, 2))] if first else []


def _said(key: str, words: str, needed: bool | None, form: str) -> str:
    status = "" if needed is None else "required" if needed else "optional"
    if form == "adjectives" and not re.search(r"[,0-9]| of ", words):
        article = "an" if (status or words)[0] in "aeiou" else "a"
        return f"{article} {status} {words} {key}".replace("  ", " ")
    if form == "colons":
        return f"{key}: {words} {status}".strip()
    return f"{key} ({words}{', ' + status if status else ''})"


def _words(field: Field, part: dict[str, Any], draw: Draw) -> str:
    if "enum" in part:
        return "one of " + (" or " if any("/" in word for word in part["enum"]) else "/").join(part["enum"])
    words = draw.one(TYPE_WORDS[field.type])
    low, high, most = part.get("minimum"), part.get("maximum"), part.get("maxLength")
    if low is not None and high is not None:
        return words + draw.one((f" from {low} to {high}", f" between {low} and {high}", f" {low}-{high}"))
    if low is not None:
        return words + draw.one((f" of at least {low}", f" >= {low}", f", minimum {low}"))
    if high is not None:
        return words + draw.one((f" of at most {high}", f" <= {high}", f", maximum {high}"))
    if most is not None:
        return words + draw.one(
            (f" of at most {most} characters", f", max length {most}", f", up to {most} characters")
        )
    return words


def _property(field: Field, draw: Draw, feature: str) -> tuple[dict[str, Any], str]:
    part: dict[str, Any] = {"type": field.type}
    if field.type == "array":
        part["items"] = {"type": "string"}
    if feature == "enum":
        part = {"enum": field.kind.split("|")}
    elif feature == "range":
        low, high = (int(bound) for bound in field.kind.partition(":")[2].split("-"))
        form = draw.one(("both", "low", "high"))
        part |= {"minimum": low} if form != "high" else {}
        part |= {"maximum": high} if form != "low" else {}
    elif feature == "length":
        part["maxLength"] = draw.one((10, 20, 30, 40, 50, 64, 80, 100))
    return part, _words(field, part, draw)


def _instances(
    world: World,
    fields: list[Field],
    keys: dict[Field, str],
    draw: Draw,
    feature: str,
) -> list[Any]:
    """Three good documents, and for each of them as many bad ones as there are ways to go wrong."""
    found: list[Any] = []
    for _ in range(3):
        good = {keys[field]: draw_value(field.kind, draw, world.pools) for field in fields}
        bad: list[dict[str, Any]] = [{**good, "other": 1}]
        for key, value in good.items():
            without = copy.deepcopy(good)
            del without[key]
            bad += [without, *({**good, key: other} for other in _others(value))]
        documents: list[Any] = [good, *bad]
        if feature == "nested":
            outer = world.noun.replace(" ", "_")
            documents = [{outer: document} for document in documents] + [{}, {outer: 3}]
        if feature == "array":
            documents = [[document] for document in documents] + [good, [good, good]]
        found += documents
    return [*found, [], "text"]


def _others(value: Any) -> list[Any]:
    """Values of other types, and of the same type beyond what was allowed."""
    if isinstance(value, bool):
        return [1, "yes"]
    if isinstance(value, int):
        return [str(value), value + 1_000_000, -value - 1_000_000, value + 0.5]
    if isinstance(value, float):
        return [str(value)]
    if isinstance(value, list):
        return ["none", [1, 2]]
    return [7, str(value) * 20]


def inferred(world: World, draw: Draw) -> Task:
    """The schema of an example, every key required."""
    fields = world.some(draw, draw.between(2, 3))
    keys = keys_for(fields, draw)
    record = {keys[field]: value for field, value in world.record(draw, fields).items()}
    # A number of the example that happens to be whole reads as an integer.
    types = {
        keys[f]: "integer" if isinstance(record[keys[f]], int) and f.type == "number" else f.type
        for f in fields
    }
    properties = {
        key: {"type": "array", "items": {"type": "string"}} if kind == "array" else {"type": kind}
        for key, kind in types.items()
    }
    answer = {"type": "object", "properties": properties, "required": list(record)}
    instances = _instances(world, fields, keys, draw, "infer")
    return Task(asked("infer", world, draw, record), answer, 3, ("schema-inferred",), instances)


def instance(world: World, draw: Draw) -> Task:
    """The object that a schema's defaults make."""
    fields = world.some(draw, 2, ("string", "integer", "boolean"))
    keys = keys_for(fields, draw)
    record = {keys[field]: value for field, value in world.record(draw, fields).items()}
    properties = {keys[f]: {"type": f.type, "default": record[keys[f]]} for f in fields}
    question = asked("instance", world, draw, compact({"type": "object", "properties": properties}))
    return Task(question, record, 2, ("schema-instance",))
