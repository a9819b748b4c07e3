"""What every composition makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity


@dataclass(frozen=True)
class Task:
    """`instances` are there for schemas only: documents that a right schema accepts or refuses as the reference does."""

    question: str
    answer: Any
    level: int
    tags: tuple[str, ...]
    instances: list[Any] = field(default_factory=list)


Composition = Callable[[Entity, Draw], Task | None]


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
