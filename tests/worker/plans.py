"""A small valid plan for tests: `example_plan(tmp_path, {"recipe.batch.packing": False})`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from expert_worker.plan import Plan, parse_plan
from expert_worker.results import ExpertRecord

EXAMPLE = Path(__file__).parents[1] / "examples" / "plan.json"


def example_document(folder: Path, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The plan as a JSON document; `changes` maps dotted keys to values."""
    plan: dict[str, Any] = json.loads(EXAMPLE.read_text().replace("{folder}", folder.as_posix()))
    return changed(plan, changes or {})


def changed(plan: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """In place."""
    for key, value in changes.items():
        *parents, last = key.split(".")
        target = plan
        for parent in parents:
            target = target[parent]
        target[last] = value
    return plan


def example_plan(folder: Path, changes: Mapping[str, Any] | None = None) -> Plan:
    return parse_plan(json.dumps(example_document(folder, changes)))


def example_record(folder: Path) -> ExpertRecord:
    """The `expert.json` of that plan, without data and base."""
    from expert_worker.run_record.expert import expert_record

    plan = example_plan(folder)
    return expert_record(plan.recipe, plan.recipe_digest, None, data={}, base={})
