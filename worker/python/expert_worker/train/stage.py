"""`expert-cli train`: builds the trainer, runs the loop, writes `final/`."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from expert_worker.base import locate
from expert_worker.checkpoint import Loaded, Store, refuse_unless_same
from expert_worker.events import Events
from expert_worker.plan import (
    Device,
    Plan,
    Resume,
    ResumeCheckpoint,
    ResumeNewest,
    TrainRequest,
    recipe_document,
)
from expert_worker.processor import name_of_processor
from expert_worker.results import LayersRecord, TrainResult
from expert_worker.tracking import start_trackers
from expert_worker.train import (
    memory,
)
from expert_worker.train.agreement import agreed, open_with_others
from expert_worker.train.dataset import Dataset, open_dataset
from expert_worker.train.distributed import DistContext, process_group
from expert_worker.train.finalize import Finish, Settings
from expert_worker.train.fused import Member
from expert_worker.train.profiler import profiled
from expert_worker.train.session import prepare
from expert_worker.train.trained_data import trained_data
from expert_worker.train.trainer import (
    TRAIN_BUDGET,
    TrainerState,
)
from expert_worker.train.validation import (
    rows_to_score,
    score_trained,
)


def run(plan: Plan, events: Events, member: Member | None = None) -> JsonValue:
    """Tokenizes if needed, trains, and returns the result for `train --json`. `member` is the expert's part
    in a group that trains fused."""
    with process_group(plan.machine, events) as dist:
        # Together with the others: a refusal of rank 0 ends them too.
        rows = rows_to_score(plan, events)
        plan = agreed(plan, dist)
        result, model, tokenizer = _train(plan, events, dist, member)
    # If the base is sharded, `expert-cli` runs the scoring in one process that holds all of it.
    if result is None:
        return {}
    if rows is not None and not dist.sharded:
        memory.release()
        evaluation = score_trained(plan, events, model, tokenizer, rows, str(result.adapter))
        result = result.model_copy(update={"evaluation": evaluation})
    return result.as_json()


def _train(
    plan: Plan, events: Events, dist: DistContext, member: Member | None
) -> tuple[TrainResult | None, Any, Any]:
    """The run's result in the main process, and the model and tokenizer as they are in `final/`, without
    gradients and optimizer."""
    began = time.monotonic()
    applied = Settings()
    events.attach(applied)
    store = Store(Path(plan.machine.paths.output), events)
    request = plan.request if isinstance(plan.request, TrainRequest) else None
    resume = request.resume if request else None
    saved = _resumed(resume, store, dist)
    dataset = _dataset(plan, events, dist)
    if saved is not None:
        extend = request is not None and request.extend
        refuse_unless_same(saved.facts, recipe_document(plan.recipe), dataset.key, plan.inputs, extend=extend)
        if dist.is_main_process:
            _take_up(resume, saved, store)
    data = trained_data(plan, dataset.key, events) if dist.is_main_process else None
    events.begin(saved.step if saved else 0)
    if saved is not None:
        _mention_other_processor(plan.machine.device, saved, events)
    trackers = start_trackers(plan, events, saved.step if saved else 0) if dist.is_main_process else None
    try:
        session = prepare(plan, events, dataset, store, saved, dist, member, began)
        began_with = saved.facts.layers if saved is not None else None
        _mention_other_layers(began_with, _known(session.layers(), began_with), events)
        events.stage("train", TRAIN_BUDGET, f"{session.trainer.total_steps} steps")
        try:
            profiles = dist.is_main_process and request is not None and request.profile
            output = Path(plan.machine.paths.output)
            with (
                profiled(output, session.trainer.device, events) if profiles else nullcontext() as profile,
                member.training() if member else nullcontext(),
                dist.leaving_at_a_stop(),
            ):
                session.trainer.profile = profile
                try:
                    session.trainer.run()
                finally:
                    _mention_compilation(began_with, session.layers(), events)
            session.trainer.accumulator.clear()
            peak = dist.all_reduce_max(memory.peak(session.trainer.device))
            result = None
            if data is not None:
                finish = Finish(
                    plan,
                    session.inputs,
                    events,
                    store,
                    session.trainer,
                    session.tokenizer,
                    dataset,
                    data,
                    applied,
                )
                result = finish.write(saved.step if saved else None, peak)
        finally:
            # Last: a mirror that does not answer keeps no adapter from `final/`.
            session.checkpoints.drain()
    finally:
        if trackers is not None:
            trackers.close()
        dataset.close()
    return result, session.trainer.model, session.tokenizer


def _dataset(plan: Plan, events: Events, dist: DistContext) -> Dataset:
    """Rank 0 tokenizes and fetches the base; the other ranks read what it wrote."""
    if dist.launched:
        return open_with_others(plan, events, dist)
    with dist.main_process_first():
        dataset = open_dataset(plan, events)
        locate(plan.recipe.base, plan.machine.paths, events)
    return dataset


def _resumed(resume: Resume | None, store: Store, dist: DistContext) -> Loaded | None:
    """Rank 0 chooses the checkpoint and cleans the folder; the other ranks read its choice."""
    saved = None
    if dist.is_main_process:
        store.open()
        saved = _chosen(resume, store)
    chosen = None
    if saved is not None:
        # Another machine may see the output folder under another path.
        chosen = saved.path.name if saved.path.parent == store.output else str(saved.path)
    chosen = dist.broadcast_object(chosen)
    return store.load(store.output / chosen) if chosen and not dist.is_main_process else saved


def _chosen(resume: Resume | None, store: Store) -> Loaded | None:
    if isinstance(resume, ResumeNewest):
        return store.newest_valid(_best_step)
    if isinstance(resume, ResumeCheckpoint):
        return store.named(Path(resume.path))
    store.clear()
    return None


def _take_up(resume: Resume | None, saved: Loaded, store: Store) -> None:
    """Once it is known that the named checkpoint may be resumed: a refused one leaves the others as they
    were."""
    if not isinstance(resume, ResumeCheckpoint):
        return
    named = Path(resume.path)
    store.rewind(saved.step)
    best = _best_step(saved)
    if best is not None:
        store.demand_best(best, named if best == saved.step else named.parent / store.path(best).name)
    store.keep(saved)


def _best_step(loaded: Loaded) -> int | None:
    return TrainerState.from_json(loaded.facts.totals).best_step


def _mention_other_processor(device: Device, saved: Loaded, events: Events) -> None:
    before, now = saved.facts.processor, name_of_processor(device)
    if before is None or before == now:
        return
    message = f"The run began on {before} and is resumed on {now}, which rounds differently"
    if saved.facts.fp32_products is not None and device.kind == "cpu":
        products = "fp32" if saved.facts.fp32_products else "its 16-bit format"
        message += f"; it still computes in {products}"
    events.warning("other-processor", message, "--fresh trains it on this processor alone.")


def _known(now: LayersRecord, before: LayersRecord | None) -> LayersRecord:
    """Before the first batch: layers that are to be compiled again may not be, as before."""
    is_open = before is not None and before.compiled is None
    return now.model_copy(update={"compiled": None}) if is_open else now


def _mention_compilation(before: LayersRecord | None, now: LayersRecord, events: Events) -> None:
    """After the first batches, where it was not known before them."""
    if before is not None and before.compiled is None:
        _mention_other_layers(before, before.model_copy(update={"compiled": now.compiled}), events)


def _mention_other_layers(before: LayersRecord | None, now: LayersRecord, events: Events) -> None:
    # An older version does not say how it computed.
    if before is None:
        return
    was, is_now, keys = [], [], []
    if before.attention != now.attention:
        was.append(f"{before.attention} attention")
        is_now.append(f"{now.attention} attention")
        keys += ["use_sdpa", "flash_attention_2"]
    elif before.path != now.path:
        # Another attention may bring the other path with it.
        was.append(f"the {before.path} path")
        is_now.append(f"the {now.path} path")
    if before.path == now.path and before.compiled != now.compiled:
        was.append(_compiled(before))
        is_now.append(_compiled(now))
        keys += ["torch_compile", "torch_compile_backend", "torch_compile_mode"]
    if was:
        began, resumed = " and ".join(was), " and ".join(is_now)
        message = f"The run began with {began} and is resumed with {resumed}, which rounds differently"
        undo = f"Set {', '.join(keys)} as when it began, or train it again" if keys else "Train it again"
        events.warning("other-layers", message, f"{undo} with --fresh to compute all of it in one way.")


def _compiled(layers: LayersRecord) -> str:
    return f"compiled layers ({layers.compiled})" if layers.compiled else "layers that are not compiled"
