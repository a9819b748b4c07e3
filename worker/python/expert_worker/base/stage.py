"""Fetches or converts the base, so that `expert-cli` can take its digest before anything is compared."""

from pydantic import JsonValue

from expert_worker.base.locate import locate
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.results import BaseResult


def run(plan: Plan, events: Events) -> JsonValue:
    return BaseResult(ok=True, folder=str(locate(plan.recipe.base, plan.machine.paths, events))).as_json()
