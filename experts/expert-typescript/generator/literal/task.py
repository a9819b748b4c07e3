"""What every composition makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .entities import Entity


@dataclass(frozen=True)
class Task:
    """`also` are other right answers; `context` is what the answer needs to be type-checked."""

    question: str
    answer: str
    level: int
    tags: tuple[str, ...]
    also: tuple[str, ...] = ()
    context: str = ""


Composition = Callable[[Entity, Draw], Task]
