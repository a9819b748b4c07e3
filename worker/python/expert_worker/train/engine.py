"""The two paths from a batch to a loss: the fast path, and plain transformers + peft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from expert_worker.base.rope import follows_longest_row, rope_parameters, text_config
from expert_worker.events import Events
from expert_worker.plan import Compile, Machine, Plan
from expert_worker.results import LayersRecord
from expert_worker.train import gradient_checkpointing
from expert_worker.train.chunk_pool import ChunkPool
from expert_worker.train.fast import compiler
from expert_worker.train.fast.batch import CPU_MULTIPLE, IGNORED, PackedBatch
from expert_worker.train.fast.decoder import FastDecoder, causal_model
from expert_worker.train.fast.dropout import Place, PlaceByThread, install
from expert_worker.train.fast.eligible import SHARDED, obstacle
from expert_worker.train.fast.kernels import triton_code, verdicts
from expert_worker.train.fast.kernels.choice import Choice
from expert_worker.train.loader import copies_pinned
from expert_worker.train.objective import Objective
from expert_worker.train.random import FORWARD, generator, seed_everything

_EAGER = "use_sdpa is false, and the fast path has no eager attention"
_TORCH_COMPILE = "torch_compile"


class Engine(Protocol):
    @property
    def kernels(self) -> Mapping[str, Choice]:
        """By operation of the fast path."""

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        """Sends a batch ahead of `backward`, which takes it from anywhere."""

    def backward(self, batch: PackedBatch, scale: float) -> Tensor:
        """Adds `scale` times the summed loss's gradient to the parameters; returns the summed loss."""

    def loss(self, batch: PackedBatch) -> Tensor:
        """The summed loss, without gradient and dropout."""

    def parameters_changed(self) -> None:
        """Must follow every change of the trained parameters: an optimizer step, a restored checkpoint."""


class FastEngine:
    """On a CPU, a batch is processed in chunks of whole documents: chunks that fit the caches are faster."""

    def __init__(
        self,
        model: Any,
        decoder: FastDecoder,
        objective: Objective,
        device: torch.device,
        lanes: ChunkPool | None,
        *,
        compiled: CompiledLayers | None = None,
        pinned: bool = False,
    ) -> None:
        self._model, self.decoder, self.device, self.lanes = model, decoder, device, lanes
        self.compiled = compiled
        self._objective, self._pinned = objective, pinned
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        return batch.to(self.device, pinned=self._pinned)

    def backward(self, batch: PackedBatch, scale: float | Tensor) -> Tensor:
        """A tensor is a scale that only the device knows, for a batch as a whole."""
        if self.lanes is None or isinstance(scale, Tensor):
            loss = self._summed(self.to_device(batch))
            if loss.requires_grad:
                # One launch instead of three for a product and its gradient.
                first = scale if isinstance(scale, Tensor) else torch.full_like(loss, scale)
                loss.backward(first)  # type: ignore[no-untyped-call]
            return loss.detach()
        total = torch.zeros(())
        for found, gradients in self.lanes.walk(
            lambda piece: self._gradients(piece, scale), self._pieces(batch)
        ):
            total += found
            for parameter, gradient in zip(self.trained, gradients, strict=True):
                accumulate(parameter, gradient)
        return total

    def loss(self, batch: PackedBatch) -> Tensor:
        self._model.eval()
        try:
            if self.lanes is None:
                return self._loss(self.to_device(batch))
            return sum(self.lanes.walk(self._loss, self._pieces(batch)), torch.zeros(()))
        finally:
            self._model.train()

    def parameters_changed(self) -> None:
        self.decoder.parameters_changed()

    @property
    def kernels(self) -> Mapping[str, Choice]:
        return self.decoder.kernels.choices

    def _loss(self, piece: PackedBatch) -> Tensor:
        with torch.no_grad():
            return self._summed(piece)

    def _summed(self, batch: PackedBatch) -> Tensor:
        return self._objective.loss(self.decoder.loss, batch)

    def _gradients(self, piece: PackedBatch, scale: float) -> tuple[Tensor, Sequence[Tensor | None]]:
        loss = self._summed(piece)
        if not loss.requires_grad:
            return loss, [None] * len(self.trained)
        return loss.detach(), torch.autograd.grad(loss * scale, self.trained, allow_unused=True)

    def _pieces(self, batch: PackedBatch) -> list[PackedBatch]:
        assert self.lanes is not None
        return [piece.filled(CPU_MULTIPLE) for piece in self.lanes.pieces(batch.to(self.device))]


def accumulate(parameter: Tensor, gradient: Tensor | None) -> None:
    """Adds to the parameter's gradient."""
    if gradient is None:
        return
    if parameter.grad is None:
        parameter.grad = gradient.contiguous()
    else:
        parameter.grad += gradient


class PlainEngine:
    """transformers' own forward on padded documents: for every architecture and every kind of
    adapter. With `passes` a batch is computed in as many as keep its padding within its own tokens."""

    def __init__(
        self,
        model: Any,
        objective: Objective,
        place: Place,
        seed: int,
        device: torch.device,
        neftune: float = 0.0,
        *,
        passes: bool = False,
        pinned: bool = False,
    ) -> None:
        self._objective = objective
        self._model, self._place, self._seed, self._device = model, place, seed, device
        self._neftune, self._passes, self._pinned = neftune, passes, pinned
        self._layer_draws = _LayerDraws(model, seed)

    def to_device(self, batch: PackedBatch) -> PackedBatch:
        return batch.to(self._device, pinned=self._pinned)

    def backward(self, batch: PackedBatch, scale: float) -> Tensor:
        losses = []
        for part in self._parts(batch):
            loss = self._summed(part)
            if loss.requires_grad:
                (loss * scale).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return _total(losses)

    def loss(self, batch: PackedBatch) -> Tensor:
        self._model.eval()
        try:
            with torch.no_grad():
                return _total([self._summed(part) for part in self._parts(batch)])
        finally:
            self._model.train()

    def parameters_changed(self) -> None:
        """peft's modules derive everything from the parameters at each call."""

    @property
    def kernels(self) -> Mapping[str, Choice]:
        return {}

    def _parts(self, batch: PackedBatch) -> list[PackedBatch]:
        """Whole documents, for one pass each. The plan counts the batch's packed tokens: a part has no more
        of them with its padding."""
        whole = self.to_device(batch).whole()
        return whole.padded_parts(len(batch.ids)) if self._passes else [whole]

    def _summed(self, batch: PackedBatch) -> Tensor:
        return self._objective.loss(self._token_loss, batch)

    def _token_loss(self, batch: PackedBatch) -> Tensor:
        padded = _padded(batch)
        self._place.keys = padded.keys
        self._place.noise_lengths = _rows(batch, batch.noise_lengths, 1) if self._neftune else None
        if self._model.training and batch.keys is not None and batch.keys.numel():
            # The dropout of a base draws other masks in each pass of a step. The last token is the last
            # document's alone; the first one may be in a beginning that documents of other passes share.
            seed_everything(self._seed, FORWARD, batch.step, int(batch.keys[-1]))
            self._layer_draws.step = batch.step
        output = self._model(input_ids=padded.ids, attention_mask=padded.mask, use_cache=False)
        logits = output.logits[:, -padded.ids.shape[1] :][:, :-1].float()
        return cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            padded.labels[:, 1:].reshape(-1),
            ignore_index=IGNORED,
            reduction="sum",
        )


class _LayerDraws:
    """LoKr's dropout drops rows of a layer's update, drawn from torch's CPU generator: one draw for each step
    and layer, the same in all passes and processes. It leaves the generator as it was for other draws.

    What is kept is scaled as by `torch.nn.Dropout`, or training would see a smaller update than answers do.
    peft's `rank_dropout_scale` divides by the share of rows that were kept, which may be 0."""

    def __init__(self, model: Any, seed: int) -> None:
        from peft.tuners.lokr import LoKrLayer

        self.step = 0
        for number, layer in enumerate(part for part in model.modules() if isinstance(part, LoKrLayer)):
            self._seed_layer(layer, seed, number)

    def _seed_layer(self, layer: Any, seed: int, number: int) -> None:
        states: list[Tensor] = []

        def before(_layer: Any, _inputs: Any) -> None:
            for adapter, dropout in layer.rank_dropout.items():
                layer.set_scale(adapter, 1 / (1 - dropout) if layer.training else 1)
            states.append(torch.get_rng_state())
            drawn = generator(seed, FORWARD, self.step, number)
            torch.default_generator.manual_seed(drawn.initial_seed())

        def after(_layer: Any, _inputs: Any, _output: Any) -> None:
            torch.set_rng_state(states.pop())
            for adapter in layer.rank_dropout:
                layer.set_scale(adapter, 1)

        layer.register_forward_pre_hook(before)
        layer.register_forward_hook(after, always_call=True)


def _total(losses: list[Tensor]) -> Tensor:
    first, *others = losses
    return sum(others, first)


class _Padded:
    """One document per row, right-padded."""

    def __init__(self, ids: Tensor, labels: Tensor, mask: Tensor, keys: Tensor | None) -> None:
        self.ids, self.labels, self.mask, self.keys = ids, labels, mask, keys


def _padded(batch: PackedBatch) -> _Padded:
    keys = _rows(batch, batch.keys, 0) if batch.keys is not None else None
    mask = _rows(batch, torch.ones_like(batch.ids), 0)
    return _Padded(_rows(batch, batch.ids, 0), _rows(batch, batch.labels, IGNORED), mask, keys)


def _rows(batch: PackedBatch, flat: Tensor, filler: int) -> Tensor:
    """Of each of the batch's tokens, by document."""
    parts = list(torch.split(flat, list(batch.lengths)))
    return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=filler)


def build(
    plan: Plan,
    model: Any,
    objective: Objective,
    device: torch.device,
    events: Events,
    *,
    sharded: bool = False,
) -> Engine:
    """Chooses the path and reports it, with the reason if it is not the fast one."""
    reason = obstacle_here(model, sharded, plan.machine)
    lanes = _lanes(plan.machine, device) if reason is None else None
    place = PlaceByThread() if lanes is not None and lanes.count > 1 else Place()
    replaced = install(model, place)
    if replaced:
        events.applied("dropout", plan.recipe.adapter.dropout, None)
    _warn_of_rope(plan, model, events)
    noise = plan.recipe.optimizer.neftune
    alpha = noise.noise_alpha if noise else 0.0
    if alpha:
        events.applied("neftune", alpha, "NEFTune noise on the embeddings")
    if reason is None:
        return _fast(plan.machine, model, objective, place, alpha, device, lanes, events)
    events.applied("path", "plain", f"Plain transformers + peft path: {reason}")
    if reason == _EAGER:
        events.warning(
            "eager-attention",
            f"{_EAGER}: the run takes the plain path, which is slower",
            "Remove use_sdpa to train on the fast path.",
        )
    if plan.machine.compile and plan.machine.compile.asked:
        events.warning("not-compiled", "torch_compile has no effect on the plain path: it runs uncompiled")
    events.applied("gradient_checkpointing", gradient_checkpointing.apply(model, plan.machine.checkpointing))
    _keep_format(model)
    _disturb(model, place, alpha)
    # All processes of a sharded base pass its layers equally often. Without packing a row is one document,
    # which the plan counts at its greatest length: one pass fits.
    passes = plan.recipe.batch.packing and not sharded
    pinned = copies_pinned(plan.machine)
    return PlainEngine(model, objective, place, plan.recipe.seed, device, alpha, passes=passes, pinned=pinned)


def _warn_of_rope(plan: Plan, model: Any, events: Events) -> None:
    """A row is then not computed as it is alone, and another micro-batch gives other losses."""
    batch = plan.recipe.batch
    if plan.machine.micro_batch == 1 and not batch.packing:
        return
    kinds = [kind for module in model.modules() if (kind := follows_longest_row(module))]
    if not kinds:
        return
    config = causal_model(model).config
    scaling, most = rope_parameters(config), text_config(config).max_position_embeddings
    original = scaling.get("original_max_position_embeddings") or most
    if batch.max_seq_length > original:
        events.warning(
            "rope-follows-longest-row",
            f"Rotary positions ({kinds[0]}) of every row are scaled for the longest row computed with it, "
            f"where that has more than {original} tokens: losses depend on which rows are together",
            "Set batch_size to 1 and packing to false to scale each row by its own length.",
        )


def obstacle_here(model: Any, sharded: bool, machine: Machine) -> str | None:
    """Why the model does not take the fast path."""
    if sharded:
        return SHARDED
    if (reason := obstacle(model)) is not None:
        return reason
    if causal_model(model).config._attn_implementation == "eager":
        return _EAGER
    return None if machine.fast_path else "it is switched off"


def _fast(
    machine: Machine,
    model: Any,
    objective: Objective,
    place: Place,
    alpha: float,
    device: torch.device,
    lanes: ChunkPool | None,
    events: Events,
) -> FastEngine:
    dtype = causal_model(model).model.norm.weight.dtype
    home = Path(machine.paths.home)
    refused = verdicts.refused(home, device, dtype)
    compiled = _compiled(machine.compile, home, device, dtype, events) if machine.compile else None
    decoder = FastDecoder(
        model,
        place,
        checkpointing=machine.checkpointing,
        flash=machine.flash_attention,
        neftune=alpha,
        compiled=compiled.wrapper if compiled else None,
        kernels=machine.kernels,
        refused=refused,
    )
    events.applied("path", "fast", "Fast path: fused adapters, loss over supervised tokens only")
    for operation, choice in decoder.kernels.choices.items():
        events.applied(f"kernels.{operation}", choice.chosen, choice.label)
        for name, reason in choice.refused.items():
            events.warning(
                "kernel-off",
                f"{operation} is computed by {choice.chosen}, not by {name}, on this device: {reason} "
                f"(`expert-cli doctor --prove`, {refused.date})",
            )
    if triton_code.supports(device) and (lacks := triton_code.missing()):
        events.warning(
            "no-triton",
            "loss, dropout and 4-bit weights are computed by torch and bitsandbytes, with more launches and "
            f"memory traffic: {lacks}",
        )
    events.applied("gradient_checkpointing", decoder.checkpointing)
    events.applied("piece_tokens", machine.piece_tokens)
    if lanes is not None:
        events.applied("lanes", lanes.count)
    return FastEngine(
        model, decoder, objective, device, lanes, compiled=compiled, pinned=copies_pinned(machine)
    )


def layers_of(alone: Engine, model: Any) -> LayersRecord:
    """As computed so far, for the checkpoints. `alone`: the engine as it is built, before a group or a
    sharded base wraps it."""
    fast = alone if isinstance(alone, FastEngine) else None
    return LayersRecord(
        path="fast" if fast else "plain",
        attention=str(causal_model(model).config._attn_implementation),
        compiled=fast.compiled.how if fast and fast.compiled else None,
        piece_tokens=fast.lanes.room if fast and fast.lanes else None,
    )


def _lanes(machine: Machine, device: torch.device) -> ChunkPool | None:
    """None if a batch is processed as a whole."""
    tokens = machine.piece_tokens
    if tokens is None or device.type != "cpu":
        return None
    # Layers are compiled once, by one thread.
    return ChunkPool(tokens, 1 if machine.compile else torch.get_num_threads())


def _compiled(
    wanted: Compile, home: Path, device: torch.device, dtype: torch.dtype, events: Events
) -> CompiledLayers | None:
    """None where the compiler lacks something, or nobody asked for it and it was not found right: the result
    is the same up to rounding."""
    if not wanted.asked and (reason := verdicts.not_proved(home, device, dtype, verdicts.COMPILED)):
        _warn_uncompiled(wanted, reason, events)
        return None
    if lacks := compiler.missing(device, wanted.backend):
        _warn_uncompiled(wanted, lacks, events)
        return None
    compiler.keep_between_runs(home)
    return CompiledLayers(wanted, events)


class CompiledLayers:
    """Layers that are compiled at the first batches: only then it is known whether they can be."""

    def __init__(self, wanted: Compile, events: Events) -> None:
        self._wanted, self._events = wanted, events
        # None once it has failed. The mode as it is asked for: other ones may have other kernels.
        self.how: str | None = f"{wanted.backend}, {wanted.mode}"
        self.wrapper = compiler.compiler(wanted.backend, _mode(wanted), self._failed)
        events.applied(
            _TORCH_COMPILE,
            wanted.backend,
            "Norms, rotary positions and SwiGLU are compiled at the first batches; "
            "later runs find them compiled",
        )

    def _failed(self, error: BaseException) -> None:
        self.how = None
        self._events.applied(_TORCH_COMPILE, False)
        _warn_uncompiled(self._wanted, compiler.reason(error), self._events)


def _warn_uncompiled(wanted: Compile, why: str, events: Events) -> None:
    words = "torch_compile has no effect, the run continues" if wanted.asked else "the layers run"
    events.warning("not-compiled", f"{words} uncompiled: {why}")


def _mode(wanted: Compile) -> str | None:
    return wanted.mode if wanted.backend == "inductor" and wanted.mode != "default" else None


def _keep_format(model: Any) -> None:
    """Adapted layers give back the format that they take. Some of peft's give fp32 (AdaLoRA on 8 bits), and
    attention refuses queries and values of two formats."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    def hook(_module: Any, inputs: Any, output: Any) -> Any:
        adapts_numbers = isinstance(output, Tensor) and inputs[0].is_floating_point()  # Embeddings take ids.
        return output.to(inputs[0].dtype) if adapts_numbers else output

    for module in model.modules():
        if isinstance(module, BaseTunerLayer) and isinstance(module, torch.nn.Module):
            module.register_forward_hook(hook)


def _disturb(model: Any, place: Place, alpha: float) -> None:
    """NEFTune on the plain path: the same noise, added after the embedding."""
    if not alpha:
        return
    from expert_worker.train.fast.dropout import Columns, uniform

    columns = Columns("neftune")

    def hook(module: Any, _inputs: Any, output: Tensor) -> Tensor:
        keys, lengths = place.keys, place.noise_lengths
        if not module.training or keys is None or lengths is None or keys.shape != output.shape[:2]:
            return output
        size = alpha / (lengths.float() * output.shape[-1]).sqrt().unsqueeze(-1)
        return output + (uniform(keys, columns.of(output.shape[-1], output.device)) * size).to(output.dtype)

    model.get_input_embeddings().register_forward_hook(hook)
