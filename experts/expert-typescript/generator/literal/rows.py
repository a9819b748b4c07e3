"""Draws tasks and deals them to the splits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw
from expert_worker.evaluate.authoring.rows import conversation
from expert_worker.evaluate.authoring.split import renamed, split_of
from expert_worker.evaluate.authoring.turns import in_turn

from .code import REFACTORINGS, implementations
from .entities import Entity, entities
from .task import Composition
from .types import TYPES

SYSTEM = "Answer with TypeScript code only."
TURNS: list[Composition] = [*TYPES, *REFACTORINGS, *implementations()]
KEYWORDS = frozenset(
    [
        "interface",
        "type",
        "extends",
        "readonly",
        "enum",
        "function",
        "const",
        "return",
        "async",
        "await",
        "if",
        "else",
        "typeof",
        "is",
        "any",
        "void",
        "number",
        "string",
        "boolean",
        "null",
        "undefined",
        "Promise",
        "Record",
        "Pick",
        "Omit",
        "Partial",
        "Required",
        "Readonly",
        "Array",
        "Object",
        "Math",
        "Set",
        "T",
        "new",
        "fetch",
        "json",
        "console",
        "log",
        "filter",
        "map",
        "reduce",
        "find",
        "findIndex",
        "some",
        "slice",
        "sort",
        "join",
        "flatMap",
        "includes",
        "startsWith",
        "endsWith",
        "length",
        "max",
        "fromEntries",
        "sum",
        "a",
        "b",
        "response",
    ]
)
TOKEN = re.compile(r"\"[^\"]*\"|`[^`]*`|\d+|[A-Za-z_]\w*|[^\s\w]")
INSIDE = re.compile(r"\$\{[^}]*\}")
TRIES = 400
TRAINED = ("messages", "tags", "level")


def skeleton(code: str) -> str:
    """The code with literals blanked and names renamed by order: two answers that share it differ in names only."""
    tokens = TOKEN.findall(code)
    names = renamed([token for token in tokens if token[0].isalpha() and token not in KEYWORDS])
    return " ".join(names.get(token) or _blanked(token) for token in tokens)


def _blanked(token: str) -> str:
    if token[0] == '"':
        return '"?"'
    if token[0] == "`":
        holes = len(INSIDE.findall(token))
        return f"`{holes} {int(token[1] != '$')} {int(token[-2] != '}')}`"
    return "0" if token[0].isdigit() else token


def rows(split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """`count` rows of a split."""
    scenes = entities(split)

    def attempts(composition: Composition, draw: Draw) -> Iterator[dict[str, Any]]:
        return _attempts(composition, scenes, draw, split)

    return in_turn(TURNS, attempts, f"typescript/{seed}/{split}", count)


def _attempts(
    composition: Composition, kinds: list[Entity], draw: Draw, split: str
) -> Iterator[dict[str, Any]]:
    for _ in range(TRIES):
        task = composition(draw.one(kinds), draw)
        if split_of(skeleton(task.answer)) != split:
            continue
        row = {
            "messages": conversation(SYSTEM, task.question, task.answer),
            "tags": list(dict.fromkeys(["literal", *task.tags])),
            "level": task.level,
            "accepted": list(task.also),
            "context": task.context,
        }
        yield row if split != "train" else {key: row[key] for key in TRAINED}
