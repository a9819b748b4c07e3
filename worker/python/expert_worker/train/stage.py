"""`expert-cli train`: builds the trainer, runs the loop, writes `final/`."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from expert_worker.base import compute_dtype, load_base, load_tokenizer, locate, torch_device
from expert_worker.checkpoint import Loaded, Store, refuse_unless_same
from expert_worker.events import Events
from expert_worker.plan import Plan, ResumeCheckpoint, ResumeNewest, TrainRequest
from expert_worker.tracking import start_trackers
from expert_worker.train import adapter, data, engine, feed, memory, optimizer, precision, schedule, state
from expert_worker.train.finish import Finish
from expert_worker.train.keeper import Keeper
from expert_worker.train.loop import Evaluate, Loop
from expert_worker.train.profiler import profiled
from expert_worker.train.rhythm import Rhythm
from expert_worker.train.scoring import checkpoint_scores, rows_to_score, score_trained
from expert_worker.train.settings import Settings
from expert_worker.train.source import Source, open_source
from expert_worker.train.spread import spread
from expert_worker.train.team import Team, assembled, plan_of_rank
from expert_worker.train.totals import Totals
from expert_worker.train.trial import try_largest
from expert_worker.train.validation import Validation, documents
from expert_worker.train.window import Window

_TRAIN_BUDGET = 900.0


def run(plan: Plan, events: Events) -> JsonValue:
    """Tokenizes if needed, trains, and returns the result for `train --json`."""
    rows = rows_to_score(plan)
    with assembled(plan, events) as team:
        result, model, tokenizer = _train(plan_of_rank(plan, team), events, team)
    # If the base is sharded, `expert-cli` runs the scoring in one process that holds all of it.
    if rows is not None and team.speaks and not team.spread:
        memory.release()
        result["evaluation"] = score_trained(plan, events, model, tokenizer, rows, str(result["adapter"]))
    return cast(JsonValue, result)


def _train(plan: Plan, events: Events, team: Team) -> tuple[dict[str, Any], Any, Any]:
    """The run's result, and the model and tokenizer as they are in `final/`: gradients and optimizer are
    gone."""
    began = time.monotonic()
    applied = Settings()
    events.attach(applied)
    store = Store(Path(plan.machine.paths.output), events)
    saved = _resumed(plan, store, team)
    with team.first_alone():
        source = open_source(plan, events)
        locate(plan, events)
    if saved is not None:
        _refuse_other_recipe(plan, saved, source)
        plan = _with_inputs_of(plan, saved)
    events.begin(saved.step if saved else 0)
    trackers = start_trackers(plan, events, saved.step if saved else 0) if team.speaks else None
    try:
        session = prepare(plan, events, source, store, saved, team)
        events.stage("train", _TRAIN_BUDGET, f"{session.loop.total_steps} steps")
        try:
            with profiled(plan, events) if team.speaks else nullcontext():
                session.loop.run()
        finally:
            session.keeper.drain()
        session.loop.window.clear()
        peak = team.largest(memory.peak(session.loop.device))
        result: dict[str, Any] = {}
        if team.speaks:
            finish = Finish(plan, events, store, session.loop, session.tokenizer, source, applied)
            result = finish.write(time.monotonic() - began, saved.step if saved else None, peak)
    finally:
        if trackers is not None:
            trackers.close()
        source.close()
    return result, session.loop.model, session.tokenizer


@dataclass(frozen=True)
class Session:
    loop: Loop
    keeper: Keeper
    tokenizer: Any


def prepare(
    plan: Plan, events: Events, source: Source, store: Store, saved: Loaded | None, team: Team
) -> Session:
    """The model with its adapter, the optimizer and the loop, as they were at `saved` if that is given."""
    precision.prepare(plan, events)
    device = torch_device(plan)
    order = data.order_of(plan, source.train)
    steps = data.total_steps(plan, order)
    tokenizer = load_tokenizer(plan, events)
    model = adapter.build(plan, load_base(plan, events), tokenizer, steps, events)
    if team.spread:
        spread(model, device, events)
    parameters = list(adapter.trained(model).values())
    team.align(parameters)
    optimizing = optimizer.build(plan.recipe.optimizer, parameters, events)
    scale = precision.LossScale.of(compute_dtype(plan))
    way = engine.build(plan, model, device, events, spread=team.spread)
    micro = saved.facts.micro_batch if saved else int(plan.machine.micro_batch)
    totals = Totals.from_json(saved.facts.totals) if saved else Totals()
    rows = _rows(plan, source, order, totals.step, steps, events, team)
    saving = Rhythm.of(plan.recipe.saving, order.steps_per_epoch, steps)
    window = Window(way, rows, parameters, plan.recipe.seed, micro, events, team)
    if saved is not None:
        state.restore(saved, model, optimizing, scale)
        way.parameters_changed()
    validation = _validation(plan, source, way, micro, events, team)
    saves = saving.left(totals.step)
    keeper = Keeper(plan, store, model, optimizing, scale, window, source.key, steps, saves, events, team)
    state_bytes = 0 if saved else optimizer.state_bytes(parameters)
    try_largest(window, source.train, order, validation, device, events, team, state_bytes)
    loop = Loop(
        plan=plan,
        events=events,
        model=model,
        optimizer=optimizing,
        engine=way,
        scale=scale,
        window=window,
        team=team,
        order=order,
        rate=schedule.rate(plan.recipe.schedule, plan.recipe.optimizer.learning_rate, steps),
        total_steps=steps,
        device=device,
        totals=totals,
        evaluating=_evaluating(plan, validation, order, steps),
        evaluate=_evaluation(plan, validation, model, tokenizer, team) if validation else None,
        saving=saving,
        save=keeper.save,
    )
    _report(plan, loop, events)
    return Session(loop, keeper, tokenizer)


def _rows(
    plan: Plan, source: Source, order: data.Order, start: int, total: int, events: Events, team: Team
) -> data.Rows:
    if source.mapped:
        return source.train
    loaded = feed.LoadedRows(source.train, order, start, total, plan, team)
    feed.report(loaded.loader, events)
    return loaded


def _resumed(plan: Plan, store: Store, team: Team) -> Loaded | None:
    """Rank 0 chooses the checkpoint and cleans the folder; the other ranks read its choice."""
    saved = None
    if team.speaks:
        store.open()
        saved = _chosen(plan, store)
    chosen = team.hear(str(saved.path) if saved else None)
    return store.load(Path(chosen)) if chosen and not team.speaks else saved


def _chosen(plan: Plan, store: Store) -> Loaded | None:
    resume = plan.request.resume if isinstance(plan.request, TrainRequest) else None
    if isinstance(resume, ResumeNewest):
        return store.newest_valid()
    if isinstance(resume, ResumeCheckpoint):
        loaded = store.load(Path(resume.path))
        store.rewind(loaded.step)
        return loaded
    store.clear()
    return None


def _refuse_other_recipe(plan: Plan, saved: Loaded, source: Source) -> None:
    extend = isinstance(plan.request, TrainRequest) and plan.request.extend
    recipe = plan.recipe.model_dump(mode="json")
    refuse_unless_same(saved.facts, recipe, source.key, plan.inputs, extend=extend)


def _with_inputs_of(plan: Plan, saved: Loaded) -> Plan:
    """A resumed run keeps the inputs recorded when it started; --extend changes the recipe."""
    begun = saved.facts.inputs
    if begun is None:
        return plan
    kept = begun.model_copy(update={"recipe": plan.recipe_digest})
    return plan.model_copy(update={"inputs": kept})


def _validation(
    plan: Plan, source: Source, way: engine.Engine, micro_batch: int, events: Events, team: Team
) -> Validation | None:
    if plan.recipe.evaluation.strategy == "no":
        return None
    if source.validation is None:
        events.warning(
            "no-validation", "There are no validation rows, so nothing is evaluated during training"
        )
        return None
    found = Validation(way, source.validation, micro_batch, events, team, plan.recipe.evaluation.rows)
    events.applied("eval_rows", sum(documents(found.rows, row) for row in found.chosen))
    return found


def _evaluating(plan: Plan, validation: Validation | None, order: data.Order, steps: int) -> Rhythm:
    if validation is None:
        return Rhythm(None, steps)
    return Rhythm.of(plan.recipe.evaluation, order.steps_per_epoch, steps)


def _evaluation(plan: Plan, validation: Validation, model: Any, tokenizer: Any, team: Team) -> Evaluate:
    """Loss on the validation rows, and accuracy by generation where the best model is chosen by it: with
    several processes all generate, because a sharded base needs all of them, and rank 0's scores count."""
    best = plan.recipe.evaluation.best
    score = checkpoint_scores(plan, model, tokenizer) if best and best.metric == "accuracy" else None

    def evaluate(step: int) -> dict[str, float]:
        return validation.run(step) | (team.hear(dict(score())) if score else {})

    return evaluate


def _report(plan: Plan, loop: Loop, events: Events) -> None:
    batch = plan.recipe.batch
    events.applied("steps", loop.total_steps)
    events.applied("steps_per_epoch", loop.order.steps_per_epoch)
    events.applied("micro_batch", loop.window.micro_batch)
    events.applied("rows_per_step", loop.order.rows_per_step)
    events.applied("group_by_length", loop.order.lengths is not None)
    events.applied("seed", loop.order.seed)
    events.applied("max_grad_norm", plan.recipe.optimizer.max_grad_norm)
    events.applied("drop_last", loop.order.drop_last)
    events.applied("max_seq_length", batch.max_seq_length)
    events.applied("memory_clear_every", plan.machine.memory_clear_every)
    events.applied("save_total_limit", plan.machine.save_total_limit)
    events.applied("evaluation_steps", loop.evaluating.every)
    events.applied("saving_steps", loop.saving.every)
    events.applied("logging_steps", plan.machine.logging.steps)
    warm = schedule.warmup_steps(plan.recipe.schedule, loop.total_steps)
    rates: list[JsonValue] = [loop.rate(step) for step in (0, loop.total_steps // 2, loop.total_steps - 1)]
    events.applied("schedule", {"kind": plan.recipe.schedule.kind, "warmup_steps": warm, "rates": rates})
    events.applied("memory_bytes", memory.now(loop.device).allocated)
