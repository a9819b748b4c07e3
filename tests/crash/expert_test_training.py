"""The real training stage on a tiny base, its rows handed over in memory instead of from the token cache."""

import sys
from types import SimpleNamespace
from typing import Any

from scene import rows

from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import stage


def run(plan: Plan, events: Events) -> Any:
    cache = SimpleNamespace(
        key="c" * 64,
        train=rows(),
        validation=rows(4, seed=9),
        existed=False,
        ledger=lambda *_: {"read": 10},
        description=SimpleNamespace(slow_encoder=None, duplicates=None, splits={}),
    )
    sys.modules["expert_worker.pretokenize"] = SimpleNamespace(  # type: ignore[assignment]
        ensure_cache=lambda plan, events, root: cache, template_text=lambda plan, tokenizer: "template"
    )
    return stage.run(plan, events)
