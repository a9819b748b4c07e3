"""Saves and restores the training state, applies retention, and passes finished checkpoints to the mirror.

No generator state: random draws are functions of their position. AdaLoRA alone keeps more than
parameters: the allocator's averages, and its parameters before pruning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from expert_worker.adapter import CONFIG, WEIGHTS
from expert_worker.base import compute_dtype, fp32_choice, torch_device
from expert_worker.checkpoint import Content, Loaded, Store
from expert_worker.checkpoint.mirror import Mirror
from expert_worker.checkpoint.record import finite
from expert_worker.checkpoint.refusal import human
from expert_worker.errors import Failed
from expert_worker.events import Events
from expert_worker.plan import Inputs, Plan, recipe_document
from expert_worker.processor import name_of_processor
from expert_worker.results import CheckpointFacts, LayersRecord
from expert_worker.run_record.final import adapter_config, adapter_tensors
from expert_worker.train import memory
from expert_worker.train.adapter import drop_ranks, trained
from expert_worker.train.distributed import DistContext, reshard
from expert_worker.train.optimizer import own_form
from expert_worker.train.precision import LossScale
from expert_worker.train.trainer import GradientAccumulator, TrainerState

# A checkpoint holds parameters, adapter and the optimizer's two averages.
_IN_CHECKPOINT = 4
_PARAMETERS, _OPTIMIZER, _REST = "parameters.safetensors", "optimizer.safetensors", "trainer.json"
# What the allocator of AdaLoRA keeps.
_AVERAGES = ("ipt", "exp_avg_ipt", "exp_avg_unc")


@dataclass(frozen=True)
class Stateful:
    """What learns, and so has a state that a checkpoint holds."""

    model: Any
    optimizer: torch.optim.Optimizer
    scale: LossScale

    def capture(self, base: str) -> dict[str, Content]:
        tensors, rest = _flatten(self.optimizer.state_dict())
        config = self.model.peft_config[self.model.active_adapter]
        parameters: dict[str, torch.Tensor] = {
            name: parameter.detach() for name, parameter in trained(self.model).items()
        }
        allocator = _allocator(self.model)
        if allocator is not None:
            for kind in _AVERAGES:
                parameters |= {f"{kind}:{name}": value for name, value in getattr(allocator, kind).items()}
        document = {
            "optimizer": rest,
            "loss_scale": self.scale.as_json(),
            "rank_pattern": _rank_pattern(config),
        }
        return {
            CONFIG: adapter_config(config, base),
            WEIGHTS: adapter_tensors(self.model),
            _PARAMETERS: parameters,
            _OPTIMIZER: tensors,
            _REST: document,
        }

    def restore(self, saved: Loaded) -> None:
        _put_parameters(saved.tensors(_PARAMETERS), self.model)
        document = saved.json(_REST)
        state = _unflatten(saved.tensors(_OPTIMIZER), document["optimizer"])
        self.optimizer.load_state_dict(own_form(state, self.optimizer))
        self.scale.restore(document["loss_scale"])
        if document["rank_pattern"] is not None:
            self.model.peft_config[self.model.active_adapter].rank_pattern = document["rank_pattern"]


@dataclass(frozen=True)
class RunFacts:
    """What every checkpoint of a run records."""

    plan: Plan
    # The digests recorded when the run started.
    inputs: Inputs | None
    cache_key: str
    total_steps: int
    fused: bool
    layers: Callable[[], LayersRecord]


class CheckpointManager:
    def __init__(
        self,
        run: RunFacts,
        state: Stateful,
        accumulator: GradientAccumulator,
        store: Store,
        saves: int,
        beside_weights: int,
        events: Events,
        dist: DistContext,
        unscored: int | None = None,
    ) -> None:
        """`saves` is the number of remaining saves, `beside_weights` the bytes that `final/` needs for its
        other files, `unscored` the step of the checkpoint to resume from if its evaluation is owed."""
        self._run, self._stateful, self._accumulator, self._store = run, state, accumulator, store
        self._saved: int | None = None
        self._unscored = unscored
        self._dist = dist
        wanted = run.plan.machine.mirror
        self._mirror = (
            Mirror(wanted.target, events, compress=wanted.compress, background=wanted.background)
            if wanted and dist.is_main_process
            else None
        )
        if dist.is_main_process:
            self._demand_room(saves, beside_weights, events)

    def _demand_room(self, saves: int, beside_weights: int, events: Events) -> None:
        """One checkpoint and `final/` must fit; a warning is given if all kept checkpoints will not."""
        adapter = sum(p.numel() * p.element_size() for p in trained(self._stateful.model).values())
        limit = self._run.plan.machine.save_total_limit
        # A checkpoint is deleted after its successor is complete.
        held = saves if limit is None else min(saves, max(limit, 1) + 1)
        final = adapter + beside_weights
        self._store.demand_room(_IN_CHECKPOINT * adapter + final)
        free = self._store.free()
        kept = held * _IN_CHECKPOINT * adapter + final
        if free < kept:
            events.warning(
                "disk-too-small",
                f"{held} checkpoints will need about {human(kept)}; {human(free)} are free",
                "Set save_total_limit or a larger save_steps, free some space, or choose a disk with -o.",
            )

    def save(
        self, state: TrainerState, metrics: dict[str, float], tokens_per_second: float | None = None
    ) -> None:
        """At most once per step: a stop right after a save does nothing. Rank 0 writes; all ranks then wait
        at a barrier."""
        if state.step in (0, self._saved):
            return
        if self._dist.sharded:
            reshard(self._stateful.model)
        if self._dist.is_main_process:
            self._commit(state, metrics, tokens_per_second)
        self._saved = state.step
        self._unscored = None
        self._dist.barrier()

    def save_unscored(self, state: TrainerState, tokens_per_second: float | None = None) -> None:
        """Before the answers are generated that decide about the best checkpoint, and where a stop ends an
        evaluation. The checkpoint is complete except for its evaluation, which a resumed run makes first.
        Nothing is deleted for it, and nothing copied to the mirror, before `save` has recorded the
        evaluation."""
        if state.step == self._unscored:
            return
        if self._dist.sharded:
            reshard(self._stateful.model)
        if self._dist.is_main_process:
            facts = self._facts(state, {}, tokens_per_second).model_copy(update={"evaluation_owed": True})
            self._store.commit(state.step, self._parts(), facts)
        self._unscored = state.step
        self._dist.barrier()

    def drop_unscored(self) -> None:
        """Its evaluation is made, it is not the best, and no save is due at its step."""
        if self._dist.is_main_process and self._unscored is not None:
            self._store.drop(self._unscored)
        self._unscored = None
        self._dist.barrier()

    def mirror_unscored(self) -> None:
        """The run is stopped: its last steps shall be on the mirror too."""
        if self._mirror is not None and self._unscored is not None:
            folder = self._store.path(self._unscored)
            if folder.is_dir():
                self._mirror.submit(folder)

    def _commit(
        self, state: TrainerState, metrics: dict[str, float], tokens_per_second: float | None
    ) -> None:
        folder = None
        if self._unscored == state.step:
            folder = self._store.record_evaluation(state.step, state.as_json(), finite(metrics))
        if folder is None:
            facts = self._facts(state, metrics, tokens_per_second)
            folder = self._store.commit(state.step, self._parts(), facts)
        pinned: set[int] = set()
        if self._mirror is not None:
            self._mirror.submit(folder)
            pinned = {int(path.name.removeprefix("checkpoint-")) for path in self._mirror.pending()}
        self._store.retain(self._run.plan.machine.save_total_limit, state.best_step, pinned)

    def _parts(self) -> dict[str, Content]:
        return self._stateful.capture(self._run.plan.recipe.base.name)

    def drain(self) -> None:
        if self._mirror is not None:
            self._mirror.drain()

    def _facts(
        self, state: TrainerState, metrics: dict[str, float], tokens_per_second: float | None
    ) -> CheckpointFacts:
        plan = self._run.plan
        machine = plan.machine
        device = torch_device(machine.device, self._dist.offset)
        dtype = compute_dtype(plan.recipe.base.quantization, machine.dtype)
        return CheckpointFacts(
            recipe_digest=plan.recipe_digest,
            recipe=recipe_document(plan.recipe),
            cache_key=self._run.cache_key,
            total_steps=self._run.total_steps,
            micro_batch=self._accumulator.micro_batch,
            totals=state.as_json(),
            metrics=finite(metrics),
            inputs=self._run.inputs,
            threads=self._dist.threads_together(machine),
            fp32_products=fp32_choice(dtype, device, self._stateful.model),
            fused=self._run.fused,
            processor=name_of_processor(machine.device),
            layers=self._run.layers(),
            tokens_per_second=tokens_per_second,
            peak_memory_bytes=memory.peak(device),
        )


def take_adapter(saved: Loaded, model: Any) -> None:
    """Only the adapter, AdaLoRA's ranks included: for the best checkpoint, which becomes final."""
    _put_parameters(saved.tensors(_PARAMETERS), model)
    if _allocator(model) is not None:
        # None before ranks are first taken away.
        model.peft_config[model.active_adapter].rank_pattern = saved.json(_REST)["rank_pattern"]
        drop_ranks(model)


def _put_parameters(tensors: Mapping[str, torch.Tensor], model: Any) -> None:
    parameters = trained(model)
    own = {name for name in tensors if ":" not in name}
    if own != parameters.keys():
        odd = sorted(own ^ parameters.keys())[0]
        raise Failed(
            f"The checkpoint's adapter is not this run's: {odd} is in only one of them",
            code="adapter-differs",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
    allocator = _allocator(model)
    if allocator is not None:
        device = next(iter(parameters.values())).device
        for name, value in tensors.items():
            kind, colon, parameter_name = name.partition(":")
            if colon:
                getattr(allocator, kind)[parameter_name] = value.to(device)


def _allocator(model: Any) -> Any:
    return getattr(model.base_model, "rankallocator", None)


def _rank_pattern(config: Any) -> Any:
    pattern = getattr(config, "rank_pattern", None)
    return pattern if pattern else None


def _flatten(document: Any, path: str = "") -> tuple[dict[str, torch.Tensor], Any]:
    """A state dict's tensors by path, and the rest as JSON with each tensor's path instead of it."""
    if isinstance(document, torch.Tensor):
        return {path: document}, {"tensor": path}
    if isinstance(document, dict):
        tensors: dict[str, torch.Tensor] = {}
        pairs = []
        for key, value in document.items():
            found, rest = _flatten(value, f"{path}/{key}" if path else str(key))
            tensors |= found
            pairs.append([key, rest])
        return tensors, {"map": pairs}
    if isinstance(document, list | tuple):
        tensors, items = {}, []
        for index, value in enumerate(document):
            found, rest = _flatten(value, f"{path}/{index}")
            tensors |= found
            items.append(rest)
        return tensors, {"list": items, "tuple": isinstance(document, tuple)}
    return {}, {"plain": document}


def _unflatten(tensors: Mapping[str, torch.Tensor], rest: Any) -> Any:
    if "tensor" in rest:
        return tensors[rest["tensor"]]
    if "map" in rest:
        return {key: _unflatten(tensors, value) for key, value in rest["map"]}
    if "list" in rest:
        items = [_unflatten(tensors, value) for value in rest["list"]]
        return tuple(items) if rest["tuple"] else items
    return rest["plain"]
