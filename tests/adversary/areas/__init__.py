"""Every area, one module each."""

import importlib

from tests.adversary.attempt import Area

NAMES = (
    "manifests",
    "outputs",
    "streams",
    "programs",
    "scaffolds",
    "terminal",
    "sql",
    "cypher",
    "typescript",
    "json_answers",
    "regex",
    "cypher_guard",
    "report_markup",
    "report_records",
    "report_flips",
    "damaged_runs",
    "changed",
    "settings",
    "variants",
    "shelf",
    "stage_kills",
    "oddities",
    "supervision",
    "datasets",
    "templates",
    "tokenizers",
    "bases",
    "adapters",
)
# Those with a quick sample that starts no process with torch.
WITHOUT_TRAINING = (
    *("manifests", "streams", "programs", "scaffolds", "terminal"),
    *("sql", "cypher", "typescript", "json_answers", "regex", "cypher_guard"),
)


def find(name: str) -> Area:
    area: Area = importlib.import_module(f"tests.adversary.areas.{name}").AREA
    return area
