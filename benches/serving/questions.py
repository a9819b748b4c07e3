"""Test questions of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expert_worker.evaluate.rows import rows_of, spread
from expert_worker.plan import Plan


@dataclass(frozen=True)
class Question:
    expert: str
    run: Path
    messages: tuple[dict[str, str], ...]

    @property
    def body(self) -> dict[str, Any]:
        """As a client sends it: how an expert answers is the server's to know."""
        return {"model": self.expert, "messages": list(self.messages)}

    def __str__(self) -> str:
        return self.messages[-1]["content"]


def plan_of(run: Path) -> Plan:
    return Plan.model_validate_json((run / "plan.json").read_text(encoding="utf-8"))


def questions_of(run: Path, count: int) -> list[Question]:
    plan = plan_of(run)
    recipe = plan.recipe
    rows = rows_of(recipe.data.test, recipe.data.field_mapping, plan.machine.paths.data)
    return [Question(recipe.expert, run, tuple(row["messages"])) for row in spread(rows, count)]
