"""Likely mistakes in answers to people's questions are wrong answers, each of them."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from expert_worker.evaluate.authoring.rows import answer_of
from expert_worker.evaluate.judge import judged
from expert_worker.evaluate.scorers import find_scorer

EXPERTS = Path(__file__).resolve().parents[2] / "experts"
SLIPS = {
    r"\bstring\b(?!\))": "number",
    r"\bnumber\b": "string",
    r"\bboolean\b": "string",
    r"(?<=\w)\?:": ":",
    r"\breadonly ": "",
    r" === ": " !== ",
    r" > ": " >= ",
    r" \+ ": " - ",
    r"\bmap\(": "filter(",
    r"\bfilter\(": "find(",
    r"\bevery\(": "some(",
    r"\bOmit<": "Pick<",
    r"\bPick<": "Omit<",
    r"\bPartial<": "Required<",
    r"\[\](?=;)": "",
    r" \| null\b": "",
    r"\b(interface|function|type|enum|const) \w+": r"\1 Something",
}


def rows(expert: str) -> list[dict[str, Any]]:
    text = (EXPERTS / expert / "datasets" / "people.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_json_with_one_value_or_key_changed_is_wrong() -> None:
    scorer = find_scorer("json")
    for row in rows("expert-json"):
        if row["instances"]:
            continue
        asked = {**row, "completion": answer_of(row)}
        slips = list(changed(json.loads(answer_of(row))))
        assert slips
        for slip in slips:
            assert not judged(scorer, asked, json.dumps(slip)).correct, (answer_of(row), slip)


def test_a_schema_that_says_less_is_wrong() -> None:
    """Each keyword counts: without it, some instance is judged differently."""
    scorer = find_scorer("json")
    schemas = [row for row in rows("expert-json") if row["instances"]]
    assert len(schemas) >= 10
    for row in schemas:
        asked = {**row, "completion": answer_of(row)}
        for slip in weaker(json.loads(answer_of(row))):
            assert not judged(scorer, asked, json.dumps(slip)).correct, (answer_of(row), slip)


def test_typescript_with_one_slip_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    scorer = find_scorer("typescript")
    for row in rows("expert-typescript"):
        asked = {**row, "completion": answer_of(row)}
        slips = {re.sub(sign, other, answer_of(row), count=1) for sign, other in SLIPS.items()} - {
            answer_of(row)
        }
        assert len(slips) >= 1, answer_of(row)
        for slip in slips:
            assert not judged(scorer, asked, slip).correct, slip


def changed(value: Any) -> Iterator[Any]:
    """The document with one leaf of another value or type, one key renamed or left out, one item left out."""
    if isinstance(value, dict):
        for key, held in value.items():
            rest = {name: other for name, other in value.items() if name != key}
            yield rest
            yield {**rest, f"{key}_": held}
            yield from ({**value, key: slip} for slip in changed(held))
    elif isinstance(value, list):
        yield [*value, None]
        for place, held in enumerate(value):
            yield [*value[:place], *value[place + 1 :]]
            yield from ([*value[:place], slip, *value[place + 1 :]] for slip in changed(held))
    elif isinstance(value, bool):
        yield from (not value, str(value))
    elif isinstance(value, int | float):
        yield from (value + 1, str(value), None)
    else:
        yield from (f"{value}.", 1)


def weaker(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema without one keyword, one required name or one allowed value, at any depth."""
    for key, held in schema.items():
        if not (key == "type" and "enum" in schema):
            yield {name: other for name, other in schema.items() if name != key}
        if key in ("required", "enum") or (key == "type" and isinstance(held, list)):
            yield from ({**schema, key: [other for other in held if other != gone]} for gone in held)
        elif key == "properties":
            for name, part in held.items():
                yield from ({**schema, key: {**held, name: slip}} for slip in weaker(part))
        elif isinstance(held, dict):
            yield from ({**schema, key: slip} for slip in weaker(held))
