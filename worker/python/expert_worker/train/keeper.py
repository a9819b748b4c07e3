"""Commits checkpoints, applies retention, and passes finished ones to the mirror."""

from __future__ import annotations

from typing import Any

import torch

from expert_worker.checkpoint import Facts, Store
from expert_worker.checkpoint.mirror import Mirror
from expert_worker.checkpoint.refusal import human
from expert_worker.events import Events
from expert_worker.plan import Plan
from expert_worker.train import state
from expert_worker.train.adapter import trained
from expert_worker.train.precision import LossScale
from expert_worker.train.team import Team
from expert_worker.train.totals import Totals
from expert_worker.train.window import Window

# A checkpoint holds parameters, adapter and the optimizer's two averages; final/ the adapter once more.
_IN_CHECKPOINT, _IN_FINAL = 4, 1


class Keeper:
    def __init__(
        self,
        plan: Plan,
        store: Store,
        model: Any,
        optimizer: torch.optim.Optimizer,
        scale: LossScale,
        window: Window,
        cache_key: str,
        total_steps: int,
        saves: int,
        events: Events,
        team: Team,
    ) -> None:
        """`saves` is the number of remaining saves."""
        self._plan, self._store = plan, store
        self._model, self._optimizer, self._scale, self._window = model, optimizer, scale, window
        self._cache_key, self._total_steps = cache_key, total_steps
        self._saved: int | None = None
        self._team = team
        wanted = plan.machine.mirror
        self._mirror = (
            Mirror(wanted.target, events, compress=wanted.compress, background=wanted.background)
            if wanted and team.speaks
            else None
        )
        if team.speaks:
            self._demand_room(saves, events)

    def _demand_room(self, saves: int, events: Events) -> None:
        """One checkpoint and `final/` must fit; a warning is given if all kept checkpoints will not."""
        adapter = sum(p.numel() * p.element_size() for p in trained(self._model).values())
        limit = self._plan.machine.save_total_limit
        # A checkpoint is deleted after its successor is complete.
        held = saves if limit is None else min(saves, max(limit, 1) + 1)
        self._store.demand_room((_IN_CHECKPOINT + _IN_FINAL) * adapter)
        free = self._store.free()
        kept = held * _IN_CHECKPOINT * adapter + _IN_FINAL * adapter
        if free < kept:
            events.warning(
                "disk-too-small",
                f"{held} checkpoints will need about {human(kept)}; {human(free)} are free",
                "Set save_total_limit or a larger save_steps, free some space, or choose a disk with -o.",
            )

    def save(self, totals: Totals, metrics: dict[str, float]) -> None:
        """At most once per step: a stop right after a save does nothing. Rank 0 writes; all ranks then wait
        at a barrier."""
        if totals.step in (0, self._saved):
            return
        if self._team.speaks:
            self._commit(totals, metrics)
        self._saved = totals.step
        self._team.wait()

    def _commit(self, totals: Totals, metrics: dict[str, float]) -> None:
        parts = state.capture(self._model, self._optimizer, self._scale, self._plan.recipe.base.name)
        folder = self._store.commit(totals.step, parts, self._facts(totals, metrics))
        pinned: set[int] = set()
        if self._mirror is not None:
            self._mirror.submit(folder)
            pinned = {int(path.name.removeprefix("checkpoint-")) for path in self._mirror.pending()}
        self._store.retain(self._plan.machine.save_total_limit, totals.best_step, pinned)

    def drain(self) -> None:
        if self._mirror is not None:
            self._mirror.drain()

    def _facts(self, totals: Totals, metrics: dict[str, float]) -> Facts:
        return Facts(
            recipe_digest=self._plan.recipe_digest,
            recipe=self._plan.recipe.model_dump(mode="json"),
            cache_key=self._cache_key,
            total_steps=self._total_steps,
            micro_batch=self._window.micro_batch,
            totals=totals.as_json(),
            metrics=metrics,
            inputs=self._plan.inputs,
            threads=self._plan.machine.threads.compute,
        )
