"""Which module carries out which stage. Imported only when asked for: most stages need torch, some do not."""

import importlib
import os
import re
import sys
from collections.abc import Callable
from typing import cast, get_args

from pydantic import JsonValue

from expert_worker.events import Events
from expert_worker.events.models import Task
from expert_worker.plan import Plan

Run = Callable[[Plan, Events], JsonValue]

STAGES: tuple[Task, ...] = get_args(Task)
# Only training owns the output folder, and with it the record of its events.
RECORDED: frozenset[Task] = frozenset({"train"})
READS_STDIN: frozenset[Task] = frozenset({"generate"})
# Seconds of imports, from a slow disk that has never read them.
IMPORT_BUDGET = 300.0
_WITHOUT_TORCH: frozenset[Task] = frozenset({"pretokenize"})


def find_stage(name: Task) -> Run:
    """The stage's `run(plan, events)`; what it returns becomes the result of the `finished` event."""
    module = importlib.import_module(module_of(name))
    return cast(Run, module.run)


def loads_torch(name: Task) -> bool:
    """Whether the stage imports torch and transformers, which takes seconds."""
    return module_of(name) == _module(name) and name not in _WITHOUT_TORCH and "torch" not in sys.modules


def module_of(name: Task) -> str:
    """Tests replace a stage through the environment, which no document can set."""
    substitute = os.environ.get("EXPERT_TEST_STAGE")
    if substitute and re.fullmatch(r"expert_test_[a-z_]+", substitute):
        return substitute
    return _module(name)


def _module(name: Task) -> str:
    return f"expert_worker.{name}.stage"
