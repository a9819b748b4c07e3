"""`expert-cli train`: builds the trainer, runs the loop, writes `final/`."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from expert_worker.base import compute_dtype, load_base, load_tokenizer, locate, torch_device
from expert_worker.checkpoint import Loaded, Store, lengthens, refuse_unless_same
from expert_worker.events import Events
from expert_worker.plan import (
    Device,
    Evaluation,
    Inputs,
    Machine,
    Plan,
    Recipe,
    Resume,
    ResumeCheckpoint,
    ResumeNewest,
    TrainRequest,
    recipe_document,
)
from expert_worker.processor import name_of_processor
from expert_worker.results import TrainResult
from expert_worker.run_record.record import chooses_by_score
from expert_worker.tracking import start_trackers
from expert_worker.train import (
    adapter,
    engine,
    loader,
    memory,
    optimizer,
    precision,
    schedule,
    short_run,
    step_graph,
)
from expert_worker.train.agreement import agreed, open_with_others
from expert_worker.train.checkpoints import CheckpointManager, restore
from expert_worker.train.dataset import Dataset, Rows, check_ids, open_dataset
from expert_worker.train.distributed import DistContext, process_group, shard
from expert_worker.train.finalize import Finish, Settings
from expert_worker.train.fused import Member
from expert_worker.train.memory_probe import try_largest
from expert_worker.train.objective import Objective, objective_of
from expert_worker.train.profiler import profiled
from expert_worker.train.sharded import ShardedEngine
from expert_worker.train.trained_data import trained_data
from expert_worker.train.trainer import (
    TRAIN_BUDGET,
    Evaluate,
    GradientAccumulator,
    Interval,
    Trainer,
    TrainerState,
)
from expert_worker.train.validation import (
    AgreedStop,
    Validation,
    checkpoint_scores,
    documents,
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
    saved = _resumed(request.resume if request else None, store, dist)
    dataset = _dataset(plan, events, dist)
    if saved is not None:
        extend = request is not None and request.extend
        refuse_unless_same(saved.facts, recipe_document(plan.recipe), dataset.key, plan.inputs, extend=extend)
    data = trained_data(plan) if dist.is_main_process else None
    events.begin(saved.step if saved else 0)
    if saved is not None:
        _mention_other_processor(plan.machine.device, saved, events)
    trackers = start_trackers(plan, events, saved.step if saved else 0) if dist.is_main_process else None
    try:
        session = prepare(plan, events, dataset, store, saved, dist, member, began)
        events.stage("train", TRAIN_BUDGET, f"{session.trainer.total_steps} steps")
        try:
            profiles = dist.is_main_process and request is not None and request.profile
            output = Path(plan.machine.paths.output)
            with (
                profiled(output, session.trainer.device, events) if profiles else nullcontext(),
                member.training() if member else nullcontext(),
            ):
                session.trainer.run()
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


@dataclass(frozen=True)
class Session:
    trainer: Trainer
    checkpoints: CheckpointManager
    tokenizer: Any
    inputs: Inputs | None
    """The digests recorded when the run started."""


def prepare(
    plan: Plan,
    events: Events,
    dataset: Dataset,
    store: Store,
    saved: Loaded | None,
    dist: DistContext,
    member: Member | None = None,
    began: float | None = None,
) -> Session:
    """The model with its adapter, the optimizer and the loop, as they were at `saved` if that is given."""
    recipe, machine = plan.recipe, plan.machine
    device = torch_device(machine.device, dist.offset)
    threads, most = dist.threads(machine), machine.device.memory_bytes
    precision.prepare(recipe.precision, device, threads, events, most)
    order = loader.order_of(recipe.batch, recipe.seed, dataset.train)
    steps = loader.total_steps(recipe.schedule.duration, order)
    short_run.check_schedule(recipe, steps, events)
    tokenizer = load_tokenizer(recipe.base, machine.paths, events)
    fp32 = saved.facts.fp32_products if saved else None
    if member is not None:
        base = member.load_base(recipe.base, machine, events, fp32)
    else:
        base = load_base(recipe.base, machine, events, process=dist.offset, sharded=dist.sharded, fp32=fp32)
    for rows_of_split in filter(None, (dataset.train, dataset.validation)):
        check_ids(rows_of_split, tokenizer, base)
    model = adapter.build(recipe, machine.modules, base, tokenizer, steps, events)
    if dist.sharded:
        shard(model, device, events)
    parameters = list(adapter.trained(model).values())
    dist.broadcast_parameters(parameters)
    optimizing = optimizer.build(recipe.optimizer, parameters, events)
    scale = precision.LossScale.of(compute_dtype(recipe.base.quantization, machine.dtype))
    objective = objective_of(recipe)
    computed = member.computed(plan) if member else plan
    training_engine = engine.build(computed, model, objective, device, events, sharded=dist.sharded)
    if dist.sharded:
        training_engine = ShardedEngine(training_engine, model)
    if member is not None:
        reason = engine.obstacle_here(model, dist.sharded, machine)
        training_engine = member.engine(training_engine, reason)
        events.applied("fused", list[JsonValue](member.companions()))
    alone, longest = dist.size == 1 and member is None, max(dataset.train.row_lengths())
    training_engine = step_graph.captured(machine, training_engine, alone, longest, device, events)
    micro = _micro_batch(int(machine.micro_batch), saved, events)
    state = _state(recipe, saved)
    rows = _rows(machine, dataset, order, state.step, steps, events, dist)
    save_interval = Interval.of(recipe.saving, order.steps_per_epoch, steps)
    accumulator = GradientAccumulator(
        training_engine, objective, rows, parameters, recipe.seed, micro, events, dist
    )
    if saved is not None:
        restore(saved, model, optimizing, scale)
        training_engine.parameters_changed()
    validation = _validation(recipe.evaluation, dataset, training_engine, objective, micro, events, dist)
    saves = save_interval.left(state.step)
    inputs = _inputs(plan.inputs, plan.recipe_digest, saved)
    owed = saved.step if saved is not None and saved.facts.evaluation_owed and validation else None
    checkpoints = CheckpointManager(
        plan,
        inputs,
        store,
        model,
        optimizing,
        scale,
        accumulator,
        dataset.key,
        steps,
        saves,
        events,
        dist,
        unscored=owed,
        fused=member is not None or (saved is not None and bool(saved.facts.fused)),
    )
    state_bytes = 0 if saved else optimizer.state_bytes(parameters)
    try_largest(accumulator, dataset.train, order, validation, device, events, dist, state_bytes)
    trainer = Trainer(
        plan=plan,
        events=events,
        model=model,
        optimizer=optimizing,
        engine=training_engine,
        scale=scale,
        accumulator=accumulator,
        dist=dist,
        order=order,
        rate=schedule.rate(recipe.schedule, recipe.optimizer.learning_rate, steps),
        total_steps=steps,
        device=device,
        state=state,
        evaluation_interval=_evaluation_interval(recipe.evaluation, validation, order, steps, events),
        evaluate=_evaluation(plan, validation, training_engine, model, tokenizer, events, dist)
        if validation
        else None,
        save_interval=save_interval,
        checkpoints=checkpoints,
        began=(time.monotonic() if began is None else began) - state.seconds,
        owes_evaluation=owed is not None,
        earlier_speed=saved.facts.tokens_per_second if saved else None,
    )
    _report(recipe, machine, trainer, events)
    return Session(trainer, checkpoints, tokenizer, inputs)


def _micro_batch(planned: int, saved: Loaded | None, events: Events) -> int:
    """Never more than the run had when it was saved: that may be what was left after it ran out of memory."""
    if saved is None or planned <= saved.facts.micro_batch:
        return planned
    fitted = saved.facts.micro_batch
    note = f"{fitted} rows at a time, as before the run was resumed; the plan has {planned}"
    events.applied("micro_batch.resumed", fitted, note)
    return fitted


def _state(recipe: Recipe, saved: Loaded | None) -> TrainerState:
    if saved is None:
        return TrainerState()
    state = TrainerState.from_json(saved.facts.totals)
    if lengthens(saved.facts.recipe, recipe_document(recipe)):
        # A run that stopped early would stop again at once.
        state.evaluations_without_gain = 0
    return state


def _rows(
    machine: Machine,
    dataset: Dataset,
    order: loader.StepSampler,
    start: int,
    total: int,
    events: Events,
    dist: DistContext,
) -> Rows:
    if dataset.mapped:
        return dataset.train
    loaded = loader.LoadedRows(dataset.train, order, start, total, machine.loader, machine.device.kind, dist)
    loader.report_loader(loaded.loader, machine, events)
    return loaded


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
        loaded = store.newest_valid()
        named = loaded.path if loaded is not None else None
    elif isinstance(resume, ResumeCheckpoint):
        named = Path(resume.path)
        loaded = store.named(named)
        store.rewind(loaded.step)
    else:
        store.clear()
        return None
    if loaded is not None and named is not None:
        best = TrainerState.from_json(loaded.facts.totals).best_step
        if best is not None:
            store.demand_best(best, named if best == loaded.step else named.parent / store.path(best).name)
    return loaded


def _inputs(planned: Inputs | None, recipe_digest: str, saved: Loaded | None) -> Inputs | None:
    """A resumed run keeps the inputs recorded when it started; --extend changes the recipe."""
    begun = saved.facts.inputs if saved is not None else None
    return begun.model_copy(update={"recipe": recipe_digest}) if begun is not None else planned


def _mention_other_processor(device: Device, saved: Loaded, events: Events) -> None:
    before, now = saved.facts.processor, name_of_processor(device)
    if before is None or before == now:
        return
    message = f"The run began on {before} and is resumed on {now}, which rounds differently"
    if saved.facts.fp32_products is not None and device.kind == "cpu":
        products = "fp32" if saved.facts.fp32_products else "its 16-bit format"
        message += f"; it still computes in {products}"
    events.warning("other-processor", message, "--fresh trains it on this processor alone.")


def _validation(
    wanted: Evaluation,
    dataset: Dataset,
    training_engine: engine.Engine,
    objective: Objective,
    micro_batch: int,
    events: Events,
    dist: DistContext,
) -> Validation | None:
    if wanted.strategy == "no":
        return None
    if dataset.validation is None:
        events.warning(
            "no-validation", "There are no validation rows, so nothing is evaluated during training"
        )
        return None
    found = Validation(training_engine, objective, dataset.validation, micro_batch, events, dist, wanted.rows)
    events.applied("eval_rows", sum(documents(found.rows, row) for row in found.chosen))
    return found


def _evaluation_interval(
    wanted: Evaluation, validation: Validation | None, order: loader.StepSampler, steps: int, events: Events
) -> Interval:
    if validation is None:
        return Interval(None, steps)
    found = Interval.of(wanted, order.steps_per_epoch, steps)
    short_run.check_choice(wanted, found, events)
    return found


def _evaluation(
    plan: Plan,
    validation: Validation,
    training_engine: engine.Engine,
    model: Any,
    tokenizer: Any,
    events: Events,
    dist: DistContext,
) -> Evaluate:
    """Loss on the validation rows, and accuracy by generation where the best model is chosen by it: with
    several processes all generate, because a sharded base needs all of them, and rank 0's scores count.

    A stop ends it after the next batch or answer."""
    stop = AgreedStop(events, dist)
    score = None
    if chooses_by_score(plan.recipe):
        score = checkpoint_scores(plan.recipe, plan.machine.paths, model, tokenizer, events, stop, dist)

    def evaluate(step: int) -> dict[str, float]:
        with adapter.as_saved(model):
            losses = validation.run(step, stop)
            if score is None:
                return losses
            step_graph.make_room(training_engine)
            scores: dict[str, float] = dist.broadcast_object(dict(score(step)))
            return losses | scores

    return evaluate


def _report(recipe: Recipe, machine: Machine, trainer: Trainer, events: Events) -> None:
    events.applied("steps", trainer.total_steps)
    events.applied("steps_per_epoch", trainer.order.steps_per_epoch)
    events.applied("micro_batch", trainer.accumulator.micro_batch)
    events.applied("rows_per_step", trainer.order.rows_per_step)
    events.applied("group_by_length", trainer.order.lengths is not None)
    events.applied("seed", trainer.order.seed)
    events.applied("max_grad_norm", recipe.optimizer.max_grad_norm)
    events.applied("drop_last", trainer.order.drop_last)
    events.applied("max_seq_length", recipe.batch.max_seq_length)
    events.applied("memory_clear_every", machine.memory_clear_every)
    events.applied("save_total_limit", machine.save_total_limit)
    events.applied("evaluation_steps", trainer.evaluation_interval.every)
    events.applied("saving_steps", trainer.save_interval.every)
    events.applied("logging_steps", machine.logging.steps)
    warm = schedule.warmup_steps(recipe.schedule, trainer.total_steps)
    rates: list[JsonValue] = [
        trainer.rate(step) for step in (0, trainer.total_steps // 2, trainer.total_steps - 1)
    ]
    events.applied("schedule", {"kind": recipe.schedule.kind, "warmup_steps": warm, "rates": rates})
    events.applied("memory_bytes", memory.now(trainer.device).allocated)
