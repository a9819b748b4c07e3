"""The parts of an expert's data whose rows are compared: training, validation, test and further test sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from expert_worker.plan import Plan, Source

TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True)
class Part:
    name: str
    sources: Sequence[Source]
    places: Mapping[str, str]


def learned_parts(plan: Plan) -> list[Part]:
    data, places = plan.recipe.data, plan.machine.paths.data
    parts = [Part(TRAIN, data.train, places), Part(VALIDATION, data.validation, places)]
    return [part for part in parts if part.sources]


def test_parts(plan: Plan) -> list[Part]:
    data, of_search = plan.recipe.data, plan.recipe.evaluation.without_base
    # A search is scored on validation rows: compared with themselves, all would be copies.
    test = [source for source in data.test if not (of_search and source in data.validation)]
    parts = [Part(TEST, test, plan.machine.paths.data)]
    parts += [Part(name, chosen.sources, chosen.files) for name, chosen in sorted(plan.test_sets.items())]
    return [part for part in parts if part.sources]
