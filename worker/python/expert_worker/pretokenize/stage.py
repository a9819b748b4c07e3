"""The stage `pretokenize`: builds the plan's token cache if it does not exist, and reports its content."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from expert_worker.events import Events
from expert_worker.plan import Plan, PretokenizeRequest
from expert_worker.pretokenize.cache import Cache
from expert_worker.pretokenize.coder import find_coder
from expert_worker.pretokenize.ensure import ensure_cache
from expert_worker.pretokenize.foreign import holds_foreign_rows
from expert_worker.pretokenize.inputs import gather
from expert_worker.pretokenize.locate import tokenizer_folder
from expert_worker.pretokenize.lost_rows import warn_of_lost_rows
from expert_worker.pretokenize.preview import preview, preview_of_cache
from expert_worker.pretokenize.record import slow_encoder, totals
from expert_worker.pretokenize.vocabulary import read_vocabulary
from expert_worker.pretokenize.watch import watched
from expert_worker.results import PretokenizeResult, PreviewRow


def run(plan: Plan, events: Events) -> dict[str, JsonValue]:
    start = time.monotonic()
    request = plan.request if isinstance(plan.request, PretokenizeRequest) else None
    count = request.preview if request is not None else 0
    if holds_foreign_rows(Path(plan.machine.paths.cache)):
        cache = ensure_cache(plan, events)
        rows = _preview_of_cache(plan, cache, count, events) if count else []
    else:
        rows = _preview(plan, count, events) if count else []
        cache = ensure_cache(plan, events, force=bool(request and request.force))
    if not plan.machine.loader.use_cache:
        events.warning(
            "cache-unused",
            "Trainings by this manifest do not read this token cache: each tokenizes its rows",
            "Set training.dataset's use_pretokenized to true and streaming to false, or leave this step out.",
        )
    warn_of_lost_rows(plan, cache, events)
    _warn_of_no_validation(plan, cache, events)
    return summary(cache, time.monotonic() - start, rows).as_json()


def _preview(plan: Plan, count: int, events: Events) -> list[PreviewRow]:
    inputs = gather(plan, events)
    home = Path(plan.machine.paths.home)
    with watched(events, f"Tokenizing with the chat template and tokenizer of {plan.recipe.base.name}"):
        coder = find_coder(inputs.vocabulary, inputs.template, home, events)
        return preview(inputs, coder, count, events)


def _preview_of_cache(plan: Plan, cache: Cache, count: int, events: Events) -> list[PreviewRow]:
    vocabulary = read_vocabulary(tokenizer_folder(plan.recipe.base, plan.machine.paths, events))
    return preview_of_cache(cache, vocabulary.tokenizer_json, count, events)


def _warn_of_no_validation(plan: Plan, cache: Cache, events: Events) -> None:
    share, held_out = plan.recipe.data.validation_split, cache.description.splits.get("validation")
    if share and held_out is not None and not held_out.documents:
        rows = cache.ledger("train")["used"]
        events.warning(
            "no-validation",
            f"validation_split {share:g} of {rows:,} {'row' if rows == 1 else 'rows'} holds out none: "
            "nothing will be evaluated during training",
            "Add rows, raise validation_split, or name a file as validation_path.",
        )


def summary(cache: Cache, seconds: float, rows: Sequence[PreviewRow]) -> PretokenizeResult:
    record = cache.description
    return PretokenizeResult(
        ok=True,
        cache=str(cache.folder),
        existed=cache.existed,
        seconds=seconds,
        totals=totals(record),
        preview=tuple(rows),
        key=record.key,
        encoder=record.encoder,
        slow_encoder=slow_encoder(record.slow_encoder) if record.slow_encoder else None,
        duplicates=record.duplicates,
        sources=record.sources,
        splits=record.splits,
    )
