"""The generated models of plan and events accept exactly what the schemas of the Rust types accept."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from plans import example_document
from pydantic import ValidationError

from expert_worker.events.models import Event
from expert_worker.plan import Plan

SCHEMAS = Path(__file__).parents[3] / "contract" / "schema"
MUTANTS = 1000
UNSIGNED = {"uint8": 2**8 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}


def oracle(file: str) -> jsonschema.Draft7Validator:
    """JSON Schema as serde reads it: 1.0 is not an integer, and formats bound integers."""
    checker = jsonschema.Draft7Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    validator = jsonschema.validators.extend(jsonschema.Draft7Validator, type_checker=checker)
    formats = jsonschema.FormatChecker(formats=())
    for name, largest in UNSIGNED.items():
        formats.checks(name)(lambda value, largest=largest: not isinstance(value, int) or value <= largest)
    return validator(json.loads((SCHEMAS / file).read_text()), format_checker=formats)


def accepted(model: type[Plan] | type[Event], document: Any) -> bool:
    try:
        model.model_validate_json(json.dumps(document))
    except ValidationError:
        return False
    return True


def plans() -> list[dict[str, Any]]:
    folder = Path("/somewhere")
    rope = {"kind": "yarn", "factor": 4.0, "attention_factor": 1.0, "short_factor": [1.0, 2.5]}
    prompt = {"name": "sql", "tokens": 8, "init": "text", "init_text": "You write SQL."}
    changes: list[dict[str, Any]] = [
        {},
        {"recipe.base.rope_scaling": rope, "request": {"stage": "pretokenize", "force": True, "preview": 3}},
        {"recipe.adapter.soft_prompts": [prompt], "request": {"stage": "evaluate", "adapter": None}},
        {
            "recipe.optimizer.neftune": {"noise_alpha": 5.0},
            "machine.compile": {"backend": "a", "mode": "b", "asked": True},
        },
        {
            "recipe.schedule.warmup": {"unit": "ratio", "value": 0.03},
            "recipe.schedule.options": {"power": 2.0},
        },
        {"recipe.schedule.duration": {"unit": "epochs", "value": 2.5}, "machine.memory_clear_every": 50},
        {"machine.mirror": {"target": "s3://a/b", "compress": True, "background": False}},
        {"request": {"stage": "generate", "prompt": "hi"}},
        {
            "recipe.evaluation.best": {"metric": "loss", "greater_is_better": False, "patience": 2},
            "recipe.evaluation.test_cases": [{"prompt": "p", "expected": "e"}],
            "request": {"stage": "export", "adapter": "a", "target": "b", "merge": True},
        },
    ]
    documents = [example_document(folder, change) for change in changes]
    documents[0]["request"]["resume"] = {"from": "checkpoint", "path": "checkpoint-3"}
    documents[1]["recipe"]["data"]["field_mapping"] = {"completion": "output.sql"}
    return documents


BODIES: list[dict[str, Any]] = [
    {"type": "started", "contract": 1, "stage": "train", "pid": 2, "recipe_digest": "ab", "resumed_from": 3},
    {"type": "stage", "name": "load base", "detail": None, "quiet_budget": 60.0},
    {"type": "advance", "stage": "pack", "done": 3, "total": None, "unit": "rows", "rate": 1.5},
    {"type": "accumulating", "step": 1, "micro": 2, "of": 4},
    {
        "type": "progress",
        "step": 1,
        "total_steps": 9,
        "epoch": 0.5,
        "loss": 1.25,
        "lr": 5e-5,
        "grad_norm": None,
        "tokens": 10,
        "supervised_tokens": 4,
        "tokens_per_second": 3.0,
        "seconds": 1,
        "data_wait": 0.0,
        "memory_allocated": 0,
        "memory_reserved": 0,
        "gpu_util": 97.5,
        "eta": None,
    },
    {"type": "applied", "key": "tf32", "value": {"cudnn": [True, None, 1.5]}, "note": "TF32 enabled"},
    {"type": "evaluated", "step": 4, "metrics": {"eval_loss": 1.5}, "seconds": 2.0},
    {"type": "checkpoint", "step": 4, "path": "checkpoint-4", "bytes": 10, "seconds": 0.5},
    {"type": "best", "step": 4, "metric": "eval_loss", "value": 1.5},
    {"type": "recovered", "kind": "out_of_memory", "step": 4, "detail": "micro-batch 8 -> 4"},
    {"type": "warning", "code": "w", "message": "m", "hint": None},
    {"type": "heartbeat", "ticks": 7},
    {"type": "text", "source": "base", "text": "SELECT", "done": False},
    {"type": "finished", "result": {"ok": True}},
    {"type": "failed", "exit": 2, "code": "bad-input", "message": "m", "hint": "h"},
]


def events() -> list[dict[str, Any]]:
    return [{"time": 1.5, "attempt": 1, "body": body} for body in BODIES]


CASES = {"plan.schema.json": (Plan, plans), "event.schema.json": (Event, events)}


@pytest.mark.parametrize("file", CASES)
def test_valid_examples_are_accepted_by_both(file):
    model, examples = CASES[file]
    validator = oracle(file)
    for document in examples():
        validator.validate(document)
        model.model_validate_json(json.dumps(document))


def test_the_examples_hold_every_event_type():
    schema = json.loads((SCHEMAS / "event.schema.json").read_text())
    types = {variant["properties"]["type"]["const"] for variant in schema["definitions"]["Body"]["oneOf"]}
    assert types == {body["type"] for body in BODIES}


@pytest.mark.parametrize("file", CASES)
def test_mutated_documents_get_one_verdict(file):
    model, examples = CASES[file]
    validator, documents, chance = oracle(file), examples(), random.Random(20)
    verdicts = {True: 0, False: 0}
    for _ in range(MUTANTS):
        document = mutate(copy.deepcopy(chance.choice(documents)), chance)
        expected = validator.is_valid(document)
        assert accepted(model, document) == expected, json.dumps(document)
        verdicts[expected] += 1
    assert min(verdicts.values()) > MUTANTS // 20, verdicts


STRANGE: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    1.0,
    1.5,
    -0.5,
    1e300,
    2**8,
    2**32 - 1,
    2**32,
    2**63,
    2**64 - 1,
    2**64,
    "",
    "1",
    "none",
    "steps",
    "naïve\u0000",
    [],
    [1],
    ["a"],
    {},
    {"a": 1},
]


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of the document."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in places(node[key])]


def mutate(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    container, key = chance.choice(places(document))
    act = chance.choice(["replace", "replace", "replace", "remove", "rename", "add", "swap"])
    if act == "replace":
        container[key] = copy.deepcopy(chance.choice(STRANGE))
    elif act == "remove":
        del container[key]
    elif act == "rename" and isinstance(container, dict):
        container[chance.choice([f"{key}s", str(key).upper(), ""])] = container.pop(key)
    elif act == "add" and isinstance(container, dict):
        container["unknown"] = chance.choice(STRANGE)
    elif act == "swap":
        other, other_key = chance.choice(places(document))
        container[key] = copy.deepcopy(other[other_key])
    return document
