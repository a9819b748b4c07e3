"""What every composition makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from expert_worker.evaluate.authoring.draw import Draw

from .kinds import Kind


@dataclass(frozen=True)
class Task:
    """`also` are other right answers; `context` is what the answer needs to be type-checked; `known` is the code of a
    well-known function or type, which decides its split.
    """

    question: str
    answer: str
    level: int
    tags: tuple[str, ...]
    also: tuple[str, ...] = ()
    context: str = ""
    known: str = ""


Composition = Callable[[Kind, Draw], Task]
