"""From a description to a JSON Schema."""

from __future__ import annotations

import copy
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity, Fact, joined, quoted
from .task import Composition, Task

FEATURES = ("types", "required", "enum", "range", "array", "nested", "closed", "length")


def schemas() -> list[Composition]:
    return [_with(feature) for feature in FEATURES]


def _with(feature: str) -> Composition:
    def composition(entity: Entity, draw: Draw) -> Task | None:
        return _task(entity, draw, feature)

    composition.__name__ = feature
    return composition


def _task(entity: Entity, draw: Draw, feature: str) -> Task | None:
    facts = _facts(entity, draw, feature)
    parts = [_property(fact, draw, feature) for fact in facts]
    properties = {fact.key: schema for fact, (schema, _) in zip(facts, parts, strict=True)}
    said = [words for _, words in parts]
    answer: dict[str, Any] = {"type": "object", "properties": properties}
    text = f"{entity.noun} with {joined(said)}"
    required = draw.some(list(properties), draw.between(1, len(properties)))
    if feature in {"required", "closed"} or draw.chance(0.4):
        answer["required"] = [key for key in properties if key in required]
        text += f"; required: {quoted(answer['required'])}"
    if feature == "closed":
        answer["additionalProperties"] = False
        text += "; nothing else allowed"
    if feature == "nested":
        answer = {"type": "object", "properties": {entity.noun: answer}}
        text = f'object whose "{entity.noun}" is an object: {text}'
    level = {"types": 1, "required": 2, "enum": 2, "nested": 4}.get(feature, 3)
    return Task(
        f"Write a JSON Schema: {text}.",
        answer,
        level,
        (f"schema-{feature}",),
        _instances(answer, entity, facts, draw, feature),
    )


def _facts(entity: Entity, draw: Draw, feature: str) -> list[Fact]:
    """One fact that the feature can show itself on, and one or two others."""
    kinds = {
        "enum": lambda kind: "|" in kind and ":" not in kind,
        "range": lambda kind: kind[0].isdigit() and "-" in kind,
    }
    kinds |= {"array": lambda kind: kind.startswith("list:")}
    fitting = [fact for fact in entity.facts if kinds.get(feature, lambda _: True)(fact.kind)]
    shown = draw.one(fitting)
    name = Fact(entity.subject, "text", "")
    others = draw.some([name, *(fact for fact in entity.facts if fact is not shown)], draw.between(1, 2))
    if feature == "length" and name not in others:
        others[0] = name
    return draw.shuffled([shown, *others])


def _property(fact: Fact, draw: Draw, feature: str) -> tuple[dict[str, Any], str]:
    """A property's schema, and the words for it."""
    kind = fact.kind
    if kind == "bool":
        return {"type": "boolean"}, f'"{fact.key}" (boolean)'
    if kind == "x.x":
        return {"type": "number"}, f'"{fact.key}" (number)'
    if kind.startswith("list:"):
        return {"type": "array", "items": {"type": "string"}}, f'"{fact.key}" (list of strings)'
    if "|" in kind and feature == "enum":
        words = kind.split("|")
        return {"enum": words}, f'"{fact.key}" (one of {quoted(words)})'
    if kind[0].isdigit() and "-" in kind:
        return _number(fact, draw, feature)
    if kind == "text" and feature == "length":
        most = draw.between(10, 60)
        return {"type": "string", "maxLength": most}, f'"{fact.key}" (string, at most {most} characters)'
    return {"type": "string"}, f'"{fact.key}" (string)'


def _number(fact: Fact, draw: Draw, feature: str) -> tuple[dict[str, Any], str]:
    if feature != "range":
        return {"type": "integer"}, f'"{fact.key}" (integer)'
    low, high = (int(part) for part in fact.kind.split("-"))
    form = draw.one(["both", "low", "high"])
    schema: dict[str, Any] = {"type": "integer"}
    if form != "high":
        schema["minimum"] = low
    if form != "low":
        schema["maximum"] = high
    words = {"both": f"from {low} to {high}", "low": f"at least {low}", "high": f"at most {high}"}[form]
    return schema, f'"{fact.key}" (integer {words})'


def _instances(
    answer: dict[str, Any], entity: Entity, facts: list[Fact], draw: Draw, feature: str
) -> list[Any]:
    """Three good documents, and for each of them as many bad ones as there are ways to go wrong."""
    found: list[Any] = []
    for _ in range(3):
        good = {
            fact.key: draw.one(entity.names) if fact.kind == "text" else fact.draw(draw) for fact in facts
        }
        bad: list[dict[str, Any]] = [{**good, "other": 1}]
        for key, value in good.items():
            without = copy.deepcopy(good)
            del without[key]
            bad += [without, *({**good, key: other} for other in _others(value))]
        documents: list[Any] = [good, *bad]
        if feature == "nested":
            documents = [{entity.noun: document} for document in documents] + [{}, {entity.noun: 3}]
        found += documents
    return [*found, [], "text"] if answer else found


def _others(value: Any) -> list[Any]:
    """Values of other types, and of the same type beyond what was allowed."""
    if isinstance(value, bool):
        return [1, "yes"]
    if isinstance(value, int):
        return [str(value), value + 100_000, -value - 100_000, value + 0.5]
    if isinstance(value, float):
        return [str(value)]
    if isinstance(value, list):
        return ["none", [1, 2]]
    return [7, str(value) * 20]
