"""Test questions of an expert with their tags, for the page: from the run that its `final/` stands in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from expert_worker.errors import ExpertError
from expert_worker.evaluate.rows import rows_of, spread, tags_of
from expert_worker.plan import Plan
from expert_worker.pretokenize.broken_rows import BrokenRows
from expert_worker.run_record.expert import system_message_of
from expert_worker.run_scores import SCORES

_MOST_ROWS = 5_000
_MOST_SHOWN = 200
_LONGEST = 4_000


def questions_with_tags(final: Path, allowed: Sequence[Path] = ()) -> dict[str, Any]:
    """Empty for an exported adapter, and where no test rows are in the expert's folder or an allowed one."""
    run = final.resolve().parent
    try:
        plan = _plan_of(run)
        data, places = plan.recipe.data, plan.machine.paths.data
        sources = [it for it in data.test if _is_shown(Path(places.get(it.name, "")), plan, run, allowed)]
        rows = rows_of(sources, data.field_mapping, places, _MOST_ROWS, broken=BrokenRows())
    except (OSError, ValidationError, ExpertError):
        return {"tags": [], "questions": []}
    system_message = system_message_of(final)
    asked = [_question(row, system_message) for row in rows]
    questions = spread([it for it in asked if it is not None], _MOST_SHOWN)
    counts = Counter(tag for it in questions for tag in it["tags"])
    scores = _scores(run / SCORES)
    tags = [{"name": name, "score": scores.get(name)} for name in sorted(counts)]
    return {"tags": tags, "questions": questions}


def skipped_files(final: Path, allowed: Sequence[Path]) -> list[Path]:
    """Files of test rows that are on this machine, and whose questions the page does not show."""
    run = final.resolve().parent
    try:
        plan = _plan_of(run)
    except (OSError, ValidationError):
        return []
    places = plan.machine.paths.data
    files = [Path(places[it.name]) for it in plan.recipe.data.test if it.name in places]
    return [file for file in files if _is_file(file) and not _is_shown(file, plan, run, allowed)]


def _plan_of(run: Path) -> Plan:
    return Plan.model_validate_json((run / "plan.json").read_bytes())


def _is_shown(file: Path, plan: Plan, run: Path, allowed: Sequence[Path]) -> bool:
    """Whoever made the run wrote its plan, and others may ask this server: no file is shown but those of the
    expert whose run this is, and those that the user allows."""
    if not _is_file(file):
        return False
    place = file.resolve()
    if any(place.is_relative_to(root.resolve()) for root in allowed):
        return True
    expert = Path(plan.machine.paths.expert_dir).resolve()
    if not (expert / "manifest.json").is_file() or not run.is_relative_to(expert):
        return False
    return place.is_relative_to(expert)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # It is in a folder that this user may not enter, or has a name that is too long.
        return False


def _question(row: Any, system_message: str | None) -> dict[str, Any] | None:
    """The page sends one message of the user; the server puts the training rows' system message before it."""
    messages = row["messages"]
    if messages[0] == {"role": "system", "content": system_message}:
        messages = messages[1:]
    if len(messages) != 1 or messages[0]["role"] != "user" or len(messages[0]["content"]) > _LONGEST:
        return None
    tags = sorted(set(tags_of(row)))
    return {"prompt": messages[0]["content"], "tags": tags}


def _scores(path: Path) -> dict[str, dict[str, int]]:
    """How many rows of a tag the adapter answered rightly; evaluations of other versions show none."""
    try:
        lines = json.loads(path.read_bytes())["by_tag"]
        shares = {str(line["name"]): line["adapter"] for line in lines if line["adapter"]}
        return {
            name: {"correct": int(it["correct"]), "total": int(it["total"])} for name, it in shares.items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}
