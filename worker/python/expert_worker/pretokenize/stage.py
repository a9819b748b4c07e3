"""The stage `pretokenize`: builds the plan's token cache if it does not exist, and reports its content."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from expert_worker.events import Events
from expert_worker.plan import Plan, PretokenizeRequest
from expert_worker.pretokenize.cache import Cache
from expert_worker.pretokenize.coder import find_coder
from expert_worker.pretokenize.ensure import ensure_cache
from expert_worker.pretokenize.inputs import gather
from expert_worker.pretokenize.preview import preview
from expert_worker.pretokenize.watch import watched


def run(plan: Plan, events: Events) -> dict[str, JsonValue]:
    start = time.monotonic()
    request = plan.request if isinstance(plan.request, PretokenizeRequest) else None
    rows: list[dict[str, Any]] = []
    if request is not None and request.preview:
        inputs = gather(plan, events)
        home = Path(plan.machine.paths.home)
        with watched(events, f"Tokenizing with the chat template and tokenizer of {plan.recipe.base.name}"):
            coder = find_coder(inputs.vocabulary, inputs.template, home, events)
            rows = preview(inputs, coder, request.preview, events)
    cache = ensure_cache(plan, events, force=bool(request and request.force))
    return summary(cache, time.monotonic() - start, rows)


def summary(cache: Cache, seconds: float, rows: list[dict[str, Any]]) -> dict[str, JsonValue]:
    told: dict[str, Any] = cache.description.model_dump(mode="json", exclude={"inputs", "template", "format"})
    if (slow := cache.description.slow_encoder) is not None:
        told["slow_encoder"] = slow.as_json()
    return {
        "ok": True,
        "cache": str(cache.folder),
        "existed": cache.existed,
        "seconds": seconds,
        "totals": dict(cache.ledger()),
        "preview": rows,
        **told,
    }
