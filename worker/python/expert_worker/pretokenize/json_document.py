"""Rows of a file that is one JSON object: a row itself, a list in it, or columns."""

from __future__ import annotations

import json
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

from expert_worker.errors import BadInput

# An object must be held in memory whole.
_MOST_BYTES = 2 << 30
# A list under such a name is part of a row.
_PARTS_OF_A_ROW = {
    "messages",
    "conversations",
    "prompt",
    "completion",
    "chosen",
    "rejected",
    "input",
    "output",
}
_DIALOGUES = ("messages", "conversations")
_QUESTIONS = {"instruction", "prompt", "question", "query", "problem", "input"}
_ANSWERS = {"completion", "output", "response", "answer", "solution", "target", "label"}


def rows_of_object(path: Path, name: str) -> list[Any] | None:
    """The rows that the object holds; None where it is a row itself, or not JSON."""
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError("a JSON object above 2 GB must be held in memory whole: make it JSON Lines")
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        return None  # The native reader names what is wrong.
    if not isinstance(document, dict) or _is_row(document):
        return None
    values = list(document.values())
    if set(document) >= {"columns", "data"} and all(
        isinstance(document[key], list) for key in ("columns", "data")
    ):
        return _table(document["columns"], document["data"])
    if len(values) > 1 and all(isinstance(value, list) for value in values):
        return _columns(document, name)
    if values and all(isinstance(value, dict) for value in values):
        return _of_objects(document)
    lists = {
        key: value
        for key, value in document.items()
        if isinstance(value, list) and key not in _PARTS_OF_A_ROW and _holds_objects(value)
    }
    if len(lists) > 1:
        raise _several(name, sorted(lists))
    return next(iter(lists.values()), None)


def _is_row(document: dict[str, Any]) -> bool:
    """Whether it asks and answers by itself: other lists in it are what the question is about."""
    if any(_is_dialogue(document[key]) for key in _DIALOGUES if isinstance(document.get(key), list)):
        return True
    texts = {key for key, value in document.items() if isinstance(value, str)}
    return bool(texts & _QUESTIONS) and bool(texts & _ANSWERS)


def _holds_objects(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(item, dict) for item in value[:100])


def _table(columns: list[Any], data: list[Any]) -> list[Any]:
    """pandas' `orient="split"`."""
    return [dict(zip(map(str, columns), row, strict=False)) if isinstance(row, list) else row for row in data]


def _columns(document: dict[str, Any], name: str) -> list[Any] | None:
    """Columns of equal length; lists of objects under other names are parts of the data, such as splits."""
    if all(_holds_objects(value) for value in document.values()) and not _PARTS_OF_A_ROW & set(document):
        raise _several(name, sorted(document))
    lengths = {key: len(value) for key, value in document.items()}
    if len(set(lengths.values())) > 1:
        if _PARTS_OF_A_ROW & set(document) and any(_holds_objects(value) for value in document.values()):
            return None
        told = ", ".join(f'"{key}" {length:,}' for key, length in list(lengths.items())[:12])
        raise ValueError(f"its columns differ in length: {told}")
    if {"prompt", "completion"} <= set(document) and _is_dialogue(document["prompt"]):
        return None
    return [dict(zip(document, row, strict=True)) for row in zip(*document.values(), strict=True)]


def _is_dialogue(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], dict) and bool({"role", "from"} & set(value[0]))


def _of_objects(document: dict[str, Any]) -> list[Any] | None:
    """pandas' default, a column per key with the rows by their index, or `orient="index"`."""
    if all(key.isdigit() for key in document):
        return list(document.values())
    first = next(iter(document.values()))
    if not first or not all(key.isdigit() for key in first):
        return None
    return [{key: column.get(at) for key, column in document.items()} for at in first]


def _several(name: str, keys: list[str]) -> BadInput:
    split = "train" if "train" in keys else keys[0]
    target = shlex.quote(str(PurePosixPath(name).with_name(f"{PurePosixPath(name).stem}-{split}.jsonl")))
    rows = shlex.quote(f'.["{split}"][]')
    return BadInput(
        f"{name} holds several lists of rows: {', '.join(keys[:12])}",
        hint="Write the one that is meant into a file, in the expert's folder: "
        f"jq -c {rows} {shlex.quote(name)} > {target}",
        code="data-several",
    )
