"""Reading a plan, and refusing one that this worker does not understand."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from expert_worker.document import first_fault
from expert_worker.errors import BadInput, Missing
from expert_worker.plan.models import CONTRACT_VERSION, Plan, Recipe


def load_plan(path: Path) -> Plan:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Cannot read the plan {path}: {error.strerror or error}") from error
    return parse_plan(text, str(path))


def parse_plan(text: str | bytes, name: str = "plan.json") -> Plan:
    _check_version(text, name)
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        pointer, what = first_fault(error)
        raise BadInput(
            f"{name} is not a plan: {pointer}: {what}",
            code="bad-plan",
            hint="Plans are written by expert-cli; run the command again instead of editing the file.",
        ) from error


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """The recipe as `expert-cli` wrote it: what it left out as a default is left out here too."""
    return recipe.model_dump(mode="json", exclude_unset=True)


def _check_version(text: str | bytes, name: str) -> None:
    """Before anything else: a plan of another version may differ in everything but this field."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not JSON: {error}", code="bad-plan") from error
    version = document.get("contract") if isinstance(document, dict) else None
    if version == CONTRACT_VERSION and isinstance(version, int):
        return
    raise Missing(
        f"{name} speaks version {version!r} of the plan contract, this worker speaks {CONTRACT_VERSION}",
        code="contract-mismatch",
        hint="Install expert-cli and the expert-worker package of the same version.",
    )
