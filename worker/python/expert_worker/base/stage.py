"""Fetches or converts the base, and fetches Hub datasets, so that `expert-cli` knows their digests before
anything is compared."""

from pydantic import JsonValue

from expert_worker.base.locate import locate
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.pretokenize.sources import fetch_hub_datasets
from expert_worker.results import BaseResult


def run(plan: Plan, events: Events) -> JsonValue:
    folder = locate(plan.recipe.base, plan.machine.paths, events)
    data = plan.recipe.data
    fetch_hub_datasets([*data.train, *data.validation, *data.test], events)
    return BaseResult(ok=True, folder=str(folder)).as_json()
