"""What makes a literal task."""

from __future__ import annotations

from collections.abc import Callable

from expert_worker.evaluate.authoring.draw import Draw

from ..task import Task, compact
from .entities import Entity

__all__ = ["Composition", "Task", "compact"]
Composition = Callable[[Entity, Draw], Task | None]
