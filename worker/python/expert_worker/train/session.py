"""Everything that a training needs in memory before its first step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from pydantic import JsonValue

from expert_worker.base import compute_dtype, load_base, load_tokenizer, torch_device
from expert_worker.checkpoint import Loaded, Store, lengthens
from expert_worker.events import Events
from expert_worker.plan import (
    Evaluation,
    Inputs,
    Machine,
    Plan,
    Recipe,
    recipe_document,
)
from expert_worker.results import LayersRecord
from expert_worker.run_record.final import room_for_tokenizer
from expert_worker.run_record.record import chooses_by_score
from expert_worker.train import (
    adapter,
    engine,
    initial_adapter,
    loader,
    memory,
    optimizer,
    precision,
    schedule,
    short_run,
    step_graph,
)
from expert_worker.train.checkpoints import CheckpointManager, RunFacts, Stateful
from expert_worker.train.dataset import Dataset, Rows, check_ids
from expert_worker.train.distributed import DistContext, shard
from expert_worker.train.fused import Member
from expert_worker.train.memory_probe import try_largest
from expert_worker.train.objective import Objective, objective_of
from expert_worker.train.sharded import ShardedEngine
from expert_worker.train.trainer import (
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
)

# Characters, and so as many tokens at most.
_QUOTED = 40


@dataclass(frozen=True)
class Session:
    trainer: Trainer
    checkpoints: CheckpointManager
    tokenizer: Any
    inputs: Inputs | None
    """The digests recorded when the run started."""
    layers: Callable[[], LayersRecord]
    """How the layers are computed: a compilation may fail at the first batches."""


@dataclass(frozen=True)
class _Network:
    """The model with its adapter, and what computes its gradients and steps."""

    tokenizer: Any
    state: Stateful
    parameters: list[torch.nn.Parameter]
    objective: Objective
    engine: engine.Engine
    layers: Callable[[], LayersRecord]


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
    network = _build(plan, events, dataset, saved, dist, member, steps, device)
    micro = _micro_batch(int(machine.micro_batch), saved, events)
    state = _state(recipe, saved)
    rows = _rows(machine, dataset, order, state.step, steps, events, dist)
    save_interval = Interval.of(recipe.saving, order.steps_per_epoch, steps)
    accumulator = GradientAccumulator(
        network.engine, network.objective, rows, network.parameters, recipe.seed, micro, events, dist
    )
    if saved is not None:
        network.state.restore(saved)
        network.engine.parameters_changed()
    validation = _validation(
        recipe.evaluation, dataset, network.engine, network.objective, micro, events, dist
    )
    inputs = _inputs(plan.inputs, plan.recipe_digest, saved)
    owed = saved.step if saved is not None and saved.facts.evaluation_owed and validation else None
    fused = member is not None or (saved is not None and bool(saved.facts.fused))
    checkpoints = CheckpointManager(
        RunFacts(plan, inputs, dataset.key, steps, fused, network.layers),
        network.state,
        accumulator,
        store,
        save_interval.left(state.step),
        room_for_tokenizer(network.tokenizer),
        events,
        dist,
        unscored=owed,
    )
    state_bytes = 0 if saved else optimizer.state_bytes(recipe.optimizer.name, network.parameters)
    try_largest(accumulator, dataset.train, order, validation, device, events, dist, state_bytes)
    model = network.state.model
    trainer = Trainer(
        plan=plan,
        events=events,
        model=model,
        optimizer=network.state.optimizer,
        engine=network.engine,
        scale=network.state.scale,
        accumulator=accumulator,
        dist=dist,
        order=order,
        rate=schedule.rate(recipe.schedule, recipe.optimizer.learning_rate, steps),
        total_steps=steps,
        device=device,
        state=state,
        evaluation_interval=_evaluation_interval(recipe.evaluation, validation, order, steps, events),
        evaluate=_evaluation(plan, validation, network.engine, model, network.tokenizer, events, dist)
        if validation
        else None,
        save_interval=save_interval,
        checkpoints=checkpoints,
        answer_begins=_answer_begins(dataset.train, network.tokenizer),
        began=(time.monotonic() if began is None else began) - state.seconds,
        owes_evaluation=owed is not None,
        earlier_speed=saved.facts.tokens_per_second if saved else None,
    )
    _report(recipe, machine, trainer, events)
    return Session(trainer, checkpoints, network.tokenizer, inputs, network.layers)


def _build(
    plan: Plan,
    events: Events,
    dataset: Dataset,
    saved: Loaded | None,
    dist: DistContext,
    member: Member | None,
    steps: int,
    device: torch.device,
) -> _Network:
    recipe, machine = plan.recipe, plan.machine
    initial_adapter.check(plan, events)
    tokenizer = load_tokenizer(recipe.base, machine.paths, events)
    fp32 = saved.facts.fp32_products if saved else None
    if member is not None:
        base = member.load_base(recipe.base, machine, events, fp32)
    else:
        base = load_base(recipe.base, machine, events, process=dist.offset, sharded=dist.sharded, fp32=fp32)
    for rows_of_split in filter(None, (dataset.train, dataset.validation)):
        check_ids(rows_of_split, tokenizer, base, key=dataset.key)
    model = adapter.build(recipe, machine.modules, base, tokenizer, steps, events)
    initial_adapter.load(plan, model, events)
    if dist.sharded:
        shard(model, device, events)
    parameters = list(adapter.trained(model).values())
    dist.broadcast_parameters(parameters)
    optimizing = optimizer.build(recipe.optimizer, parameters, events)
    scale = precision.LossScale.of(compute_dtype(recipe.base.quantization, machine.dtype))
    objective = objective_of(recipe)
    computed = member.computed(plan) if member else plan
    training_engine = engine.build(computed, model, objective, device, events, sharded=dist.sharded)
    layers = partial(engine.layers_of, training_engine, model)
    if dist.sharded:
        training_engine = ShardedEngine(training_engine, model)
    if member is not None:
        reason = engine.obstacle_here(model, dist.sharded, machine)
        training_engine = member.engine(training_engine, reason)
        events.applied("fused", list[JsonValue](member.companions()))
    alone, longest = dist.size == 1 and member is None, max(dataset.train.row_lengths())
    training_engine = step_graph.captured(machine, training_engine, alone, longest, device, events)
    state = Stateful(model, optimizing, scale)
    return _Network(tokenizer, state, parameters, objective, training_engine, layers)


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


def _inputs(planned: Inputs | None, recipe_digest: str, saved: Loaded | None) -> Inputs | None:
    """A resumed run keeps the inputs recorded when it started; --extend changes the recipe."""
    begun = saved.facts.inputs if saved is not None else None
    return begun.model_copy(update={"recipe": recipe_digest}) if begun is not None else planned


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
    short_run.check_evaluations(wanted, found, events)
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


def _answer_begins(rows: Rows, tokenizer: Any) -> Callable[[int], str]:
    """By its own words a row is found in its file, which its place in the token cache does not say."""

    def begins(row: int) -> str:
        labels = torch.as_tensor(rows.batch([row])[1])
        learned = labels[labels >= 0][:_QUOTED].tolist()
        words = " ".join(tokenizer.decode(learned, skip_special_tokens=True).split())
        return words if len(words) <= _QUOTED else words[:_QUOTED] + "..."

    return begins


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
