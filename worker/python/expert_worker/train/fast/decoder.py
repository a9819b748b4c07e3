"""A decoder over packed documents, for the layouts in `families`.

It reads an unmodified transformers + peft model: the same modules hold the weights, only the computation
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint

from .batch import CPU_MULTIPLE, PackedBatch
from .between import Between, Norm, Wrapper
from .dropout import Columns, Place, Tokens, uniform
from .families import LayerParts, layout
from .kernels.adapted_linear import CardGroup, FusedLayer, GroupedOnCard, together
from .kernels.attention import Documents
from .kernels.choice import Kernels
from .kernels.registry import Target
from .kernels.verdicts import NOTHING, Refused


@dataclass(frozen=True)
class BatchContext:
    """The batch's data that every layer needs."""

    documents: Documents
    cos: Tensor
    sin: Tensor


class Layer:
    """One decoder layer."""

    QKV, GATE_UP = ("query", "key", "value"), ("gate", "up")
    PROJECTIONS = (*QKV, "output", *GATE_UP, "down")

    # Those that are computed as one, where they are.
    qkv: CardGroup | GroupedOnCard | None
    gate_up: CardGroup | GroupedOnCard | None

    def __init__(self, parts: LayerParts, kernels: Kernels, between: Between) -> None:
        self._attend, self._between = kernels.attention, between
        self.query, self.key, self.value, self.output, self.gate, self.up, self.down = (
            kernels.projection(module)
            for module in (
                parts.query,
                parts.key,
                parts.value,
                parts.output,
                parts.gate,
                parts.up,
                parts.down,
            )
        )
        qkv, gate_up = (
            kernels.joined([getattr(self, name) for name in names]) for names in (self.QKV, self.GATE_UP)
        )
        self.qkv, self.gate_up = qkv, gate_up
        for name in self.separate():
            setattr(self, name, kernels.joined((getattr(self, name),)) or getattr(self, name))
        self.head_width, self.scale = parts.head_width, parts.scale
        self.before, self.between = Norm.of(parts.before), Norm.of(parts.between)
        self.head_norms = None
        if parts.query_norm is not None and parts.key_norm is not None:
            self.head_norms = Norm.of(parts.query_norm), Norm.of(parts.key_norm)
        norms = [(norm.weight, norm.epsilon) for norm in self.head_norms or ()]
        self.heads = kernels.heads(qkv, norms, self.head_width)
        self.adapted_mlp = kernels.mlp(gate_up, self.down)

    def separate(self) -> Iterator[str]:
        """The projections outside of `qkv` and `gate_up`."""
        joined = (*(self.QKV if self.qkv else ()), *(self.GATE_UP if self.gate_up else ()))
        return (name for name in self.PROJECTIONS if name not in joined)

    def invalidate(self) -> None:
        for fused in self._fused():
            fused.invalidate()

    def _fused(self) -> Iterator[FusedLayer]:
        for it in (getattr(self, name) for name in self.PROJECTIONS):
            if isinstance(it, FusedLayer):
                yield it

    def begin(self, x: Tensor, more: Tensor | None) -> tuple[Tensor, Tensor]:
        """x + more, and what attention reads of it."""
        if more is None:
            return x, self._between.norm(x, self.before)
        return self._between.summed(x, more, self.before)

    def attention(self, x: Tensor, context: BatchContext) -> Tensor:
        """What attention adds to `x`."""
        return self.attend(self._between.norm(x, self.before), context)

    def attend(self, normed: Tensor, context: BatchContext) -> Tensor:
        query, key, value = self._qkv(normed, context)
        seen = self._attend(query, key, value, context.documents, self.scale)
        return self.output(seen.reshape(seen.shape[0], -1))

    def mlp(self, x: Tensor, attended: Tensor | None = None) -> Tensor:
        """Of the sum of both."""
        if attended is None:
            return x + self._feed(self._between.norm(x, self.between))
        x, more = self.feed(x, attended)
        return x + more

    def feed(self, x: Tensor, attended: Tensor) -> tuple[Tensor, Tensor]:
        """x + attended, and what the MLP adds to it."""
        x, normed = self._between.summed(x, attended, self.between)
        return x, self._feed(normed)

    def _feed(self, normed: Tensor) -> Tensor:
        if self.adapted_mlp is not None:
            return self.adapted_mlp(normed)
        if self.gate_up is not None:
            return self.down(self._between.swiglu_of(self.gate_up(normed)))
        return self.down(self._between.swiglu(*together((self.gate, self.up), normed)))

    def _qkv(self, normed: Tensor, context: BatchContext) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values: [tokens, heads, width]."""
        if self.heads is not None:
            return self.heads(normed, context.cos, context.sin)
        settings = self.head_norms, self.head_width, context.cos, context.sin
        if self.qkv is not None:
            return self._between.heads_of(self.qkv(normed), self.qkv.widths, *settings)
        query, key, value = together((self.query, self.key, self.value), normed)
        query, key = self._between.heads(query, key, *settings)
        return query, key, value.view(normed.shape[0], -1, self.head_width)


class FastDecoder:
    """Summed loss of a packed batch. `checkpointing` is none, selective (attention only) or full (each
    layer); `kernels` names kernels by operation, and `refused` those that this device does not use."""

    def __init__(
        self,
        model: Any,
        place: Place,
        *,
        checkpointing: str = "none",
        flash: bool = False,
        neftune: float = 0.0,
        compiled: Wrapper | None = None,
        kernels: Mapping[str, str] | None = None,
        refused: Refused = NOTHING,
    ) -> None:
        inner = causal_model(model)
        self.body, self.head = inner.model, inner.lm_head
        self.dtype = self.body.norm.weight.dtype
        target = Target(self.body.norm.weight.device, self.dtype, flash, compiled is not None)
        self.kernels = Kernels(target, kernels, refused)
        read = layout(inner.config.model_type)
        if read is None:
            raise ValueError(f"the fast path does not compute {inner.config.model_type}")
        self.between = Between(self.kernels, compiled)
        self.layers = [Layer(read.layer(block), self.kernels, self.between) for block in self.body.layers]
        self.norm = Norm.of(self.body.norm)
        self.place, self.checkpointing, self.neftune = place, checkpointing, neftune
        self._noise = Columns("neftune")

    def parameters_changed(self) -> None:
        """What was derived from the trained parameters is computed again."""
        self.kernels.copies.invalidate()
        for layer in self.layers:
            layer.invalidate()

    def prepare(self) -> None:
        """Computes what all passes read of the trained parameters: a captured pass would repeat it."""
        self.kernels.copies.refresh(self.dtype)

    def loss(self, batch: PackedBatch) -> Tensor:
        """Summed over the supervised tokens; a batch without any gives an exact zero without gradient."""
        if batch.sources.numel() == 0:
            return torch.zeros((), device=batch.ids.device)
        x, targets, _ = self._hidden(batch)
        return self.kernels.head_loss(x, self.head.weight.detach(), targets)

    def _hidden(self, batch: PackedBatch) -> tuple[Tensor, Tensor, Tokens]:
        """What the head reads, for the supervised tokens alone, with their targets."""
        x, context, tokens = self._embed(batch), self._context(batch), self._tokens(batch)
        *layers, last = self.layers
        if self.checkpointing == "none":
            x, attended = self._through(x, context, tokens)
        else:
            for layer in layers:
                x = self._layer(layer, x, context, tokens)
            attended = self._attention(last, x, context, tokens)
        # After the last attention, tokens are independent: unsupervised ones do not affect the loss.
        sources, targets = batch.supervised_targets(CPU_MULTIPLE if x.device.type == "cpu" else 1)
        x = (x + attended).index_select(0, sources)
        del attended
        tokens = self._tokens(batch, sources)
        return self.between.norm(self._mlp(last, x, tokens), self.norm), targets, tokens

    def _tokens(self, batch: PackedBatch, chosen: Tensor | None = None) -> Tokens:
        """All tokens of the batch, or the chosen ones."""
        keys = batch.keys
        return Tokens(keys if keys is None or chosen is None else keys[chosen])

    def _through(self, x: Tensor, context: BatchContext, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """The last layer's input, and what its attention adds to it. A layer's last sum is formed with the
        next one's first norm, in one kernel if they are compiled."""
        self.place.enter(tokens)
        *layers, last = self.layers
        more: Tensor | None = None
        for layer in layers:
            x, normed = layer.begin(x, more)
            attended = layer.attend(normed, context)
            del normed
            x, more = layer.feed(x, attended)
            del attended
        x, normed = last.begin(x, more)
        return x, last.attend(normed, context)

    def _layer(self, layer: Layer, x: Tensor, context: BatchContext, tokens: Tokens) -> Tensor:
        if self.checkpointing != "full":
            return layer.mlp(x, self._attention(layer, x, context, tokens))

        def whole(x: Tensor) -> Tensor:
            self.place.enter(tokens)
            return layer.mlp(x, layer.attention(x, context))

        return _again(whole, x)

    def _attention(self, layer: Layer, x: Tensor, context: BatchContext, tokens: Tokens) -> Tensor:
        """What attention adds to `x`."""

        def part(x: Tensor) -> Tensor:
            self.place.enter(tokens)
            return layer.attention(x, context)

        return part(x) if self.checkpointing == "none" else _again(part, x)

    def _mlp(self, layer: Layer, x: Tensor, tokens: Tokens) -> Tensor:
        def part(x: Tensor) -> Tensor:
            self.place.enter(tokens)
            return layer.mlp(x)

        return _again(part, x) if self.checkpointing == "full" else part(x)

    def _embed(self, batch: PackedBatch) -> Tensor:
        with torch.no_grad():
            x = embedding(batch.ids, self.body.embed_tokens.weight).to(self.dtype)
            if self.neftune and batch.keys is not None and self.body.training:
                x = x + self._noise_for(batch, x)
        return x

    def _noise_for(self, batch: PackedBatch, x: Tensor) -> Tensor:
        """Uniform noise of magnitude alpha / sqrt(length * width), as NEFTune defines it, by document."""
        assert batch.keys is not None
        scale = self.neftune / (batch.noise_lengths.float() * x.shape[1]).sqrt().unsqueeze(1)
        return (uniform(batch.keys, self._noise.of(x.shape[1], x.device)) * scale).to(x.dtype)

    def _context(self, batch: PackedBatch) -> BatchContext:
        cos, sin = rotations(self.body, batch.positions)
        if self.between.is_compiled or cos.device.type == "cpu":
            # The compiler would take the number of tokens for a constant: in what this is a view of, it is
            # not the first dimension. On a CPU each layer would make a copy.
            cos, sin = cos.contiguous(), sin.contiguous()
        return BatchContext(batch.documents, cos, sin)


# Two threads compute pieces of a batch on a CPU.
_ROTATING = Lock()


@torch.no_grad()
def rotations(body: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles: [tokens, 1, half of a head's width]."""
    # With longrope and dynamic scaling it writes the frequencies for these rows into itself, then reads them.
    with _ROTATING:
        cos, sin = body.rotary_emb(body.norm.weight.new_empty((1, 1, 1)), positions.unsqueeze(0))
    half = cos.shape[-1] // 2
    return cos[0, :, None, :half], sin[0, :, None, :half]


def _again(part: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    result: Tensor = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
    return result


def causal_model(model: Any) -> Any:
    """The transformers model inside a peft one."""
    from peft import PeftModel

    return model.get_base_model() if isinstance(model, PeftModel) else model
