"""What every composition makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .worlds import World


@dataclass(frozen=True)
class Task:
    """`instances` are there for schemas only: documents that a right schema accepts or refuses as the reference does."""

    question: str
    answer: Any
    level: int
    tags: tuple[str, ...]
    instances: list[Any] = field(default_factory=list)


Composition = Callable[[World, Draw], Task | None]


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def printed(value: Any, draw: Draw) -> str:
    """JSON in a question: on one line, without blanks, or indented."""
    style = draw.weighted(("line", "tight", "indented"), (6, 2, 2))
    if style == "tight":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if style == "indented" and len(compact(value)) < 200:
        return json.dumps(value, ensure_ascii=False, indent=2)
    return compact(value)
