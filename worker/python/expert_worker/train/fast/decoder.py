"""The decoder of Llama, Qwen and Mistral over packed documents.

It reads an unmodified transformers + peft model: the same modules hold the weights, only the computation
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.utils.checkpoint import checkpoint

from expert_worker.base.fp32_products import product_dtype
from expert_worker.plan import FastParts

from .attention import Documents, attend, kernel
from .batch import CPU_MULTIPLE, PackedBatch
from .dropout import Columns, Place, uniform
from .head_loss import head_loss, whole_head_loss
from .norm import rms_norm
from .projection import Fused, projection
from .rotary import rotate
from .swiglu import swiglu

_ALL_PARTS = FastParts(document_attention=True, chunked_loss=True, fused_adapters=True)


# Compiles a function.
Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Norm:
    weight: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.epsilon)

    @classmethod
    def of(cls, module: Any) -> Norm:
        return cls(module.weight.detach(), float(module.variance_epsilon))


@dataclass(frozen=True)
class Turn:
    """The batch's data that every layer needs."""

    documents: Documents
    cos: Tensor
    sin: Tensor
    way: str


class Layer:
    """One decoder layer."""

    def __init__(self, layer: Any, fused: bool) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.query, self.key, self.value, self.output, self.gate, self.up, self.down = (
            projection(module, fused)
            for module in (
                attention.q_proj,
                attention.k_proj,
                attention.v_proj,
                attention.o_proj,
                mlp.gate_proj,
                mlp.up_proj,
                mlp.down_proj,
            )
        )
        self.head_width = int(attention.head_dim)
        self.scale = float(attention.scaling)
        self.before, self.between = Norm.of(layer.input_layernorm), Norm.of(layer.post_attention_layernorm)
        self.query_norm = Norm.of(attention.q_norm) if hasattr(attention, "q_norm") else None
        self.key_norm = Norm.of(attention.k_norm) if hasattr(attention, "k_norm") else None

    def compile(self, compiled: Wrapper) -> None:
        """Everything except attention, which is one kernel already and differs for every batch."""
        for part in ("asked", "answered", "mlp"):
            setattr(self, part, compiled(getattr(self, part)))

    def make_ready(self) -> None:
        for fused in self._fused():
            fused.make_ready()

    def invalidate(self) -> None:
        for fused in self._fused():
            fused.invalidate()

    def _fused(self) -> Iterator[Fused]:
        for it in (self.query, self.key, self.value, self.output, self.gate, self.up, self.down):
            if isinstance(it, Fused):
                yield it

    def attention(self, x: Tensor, turn: Turn) -> Tensor:
        query, key, value = self.asked(x, turn.cos, turn.sin)
        seen = attend(query, key, value, turn.documents, self.scale, turn.way)
        return self.answered(x, seen)

    def asked(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values: [tokens, heads, width]."""
        x = self.before(x)
        query = self._heads(self.query(x), self.query_norm)
        key = self._heads(self.key(x), self.key_norm)
        value = self.value(x).view(x.shape[0], -1, self.head_width)
        return rotate(query, cos, sin), rotate(key, cos, sin), value

    def answered(self, x: Tensor, seen: Tensor) -> Tensor:
        return x + self.output(seen.reshape(seen.shape[0], -1))

    def mlp(self, x: Tensor) -> Tensor:
        normed = self.between(x)
        return x + self.down(swiglu(self.gate(normed), self.up(normed)))

    def _heads(self, x: Tensor, norm: Norm | None) -> Tensor:
        x = x.view(x.shape[0], -1, self.head_width)
        return x if norm is None else norm(x)


class FastDecoder:
    """Summed loss of a packed batch. `checkpointing` is none, selective (attention only) or full (each
    layer)."""

    def __init__(
        self,
        model: Any,
        place: Place,
        *,
        checkpointing: str = "none",
        flash: bool = False,
        neftune: float = 0.0,
        compiled: Wrapper | None = None,
        parts: FastParts = _ALL_PARTS,
    ) -> None:
        inner = causal_model(model)
        self.body, self.head = inner.model, inner.lm_head
        self.layers = [Layer(layer, parts.fused_adapters) for layer in self.body.layers]
        self._compiled = compiled is not None
        if compiled is not None:
            for layer in self.layers:
                layer.compile(compiled)
        self.norm = Norm.of(self.body.norm)
        self.place, self.checkpointing, self.neftune = place, checkpointing, neftune
        self.dtype = self.body.norm.weight.dtype
        products = product_dtype(self.head, self.dtype)
        self.way = kernel(self.norm.weight.device, products, flash, parts.document_attention)
        self._loss_of = head_loss if parts.chunked_loss else whole_head_loss
        self._noise = Columns("neftune")

    def parameters_changed(self) -> None:
        """What was derived from the trained parameters is computed again."""
        for layer in self.layers:
            layer.invalidate()

    def loss(self, batch: PackedBatch) -> Tensor:
        """Summed over the supervised tokens; a batch without any gives an exact zero without gradient."""
        if batch.sources.numel() == 0:
            return torch.zeros((), device=batch.ids.device)
        x, turn = self._embed(batch), self._turn(batch)
        if self._compiled:
            for layer in self.layers:
                layer.make_ready()
        *layers, last = self.layers
        for layer in layers:
            x = self._layer(layer, x, turn, batch.keys)
        # After the last attention, tokens are independent: unsupervised ones do not affect the loss.
        sources, targets = batch.asked(CPU_MULTIPLE if x.device.type == "cpu" else 1)
        x = self._attention(last, x, turn, batch.keys).index_select(0, sources)
        keys = batch.keys[sources] if batch.keys is not None else None
        x = self.norm(self._mlp(last, x, keys))
        return self._loss_of(x, self.head.weight.detach(), targets)

    def _layer(self, layer: Layer, x: Tensor, turn: Turn, keys: Tensor | None) -> Tensor:
        if self.checkpointing != "full":
            return self._mlp(layer, self._attention(layer, x, turn, keys), keys)

        def whole(x: Tensor) -> Tensor:
            self.place.keys = keys
            return layer.mlp(layer.attention(x, turn))

        return _again(whole, x)

    def _attention(self, layer: Layer, x: Tensor, turn: Turn, keys: Tensor | None) -> Tensor:
        def part(x: Tensor) -> Tensor:
            self.place.keys = keys
            return layer.attention(x, turn)

        return part(x) if self.checkpointing == "none" else _again(part, x)

    def _mlp(self, layer: Layer, x: Tensor, keys: Tensor | None) -> Tensor:
        def part(x: Tensor) -> Tensor:
            self.place.keys = keys
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
        lengths = torch.tensor(batch.lengths, device=x.device)
        size = self.neftune / (lengths.float() * x.shape[1]).sqrt()
        scale = torch.repeat_interleave(size, lengths).unsqueeze(1)
        return (uniform(batch.keys, self._noise.of(x.shape[1], x.device)) * scale).to(x.dtype)

    @torch.no_grad()
    def _turn(self, batch: PackedBatch) -> Turn:
        like = self.norm.weight.new_empty((1, 1, 1))
        cos, sin = self.body.rotary_emb(like, batch.positions.unsqueeze(0))
        half = cos.shape[-1] // 2
        return Turn(batch.documents, cos[0, :, None, :half], sin[0, :, None, :half], self.way)


def _again(part: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    result: Tensor = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
    return result


def causal_model(model: Any) -> Any:
    """The transformers model inside a peft one."""
    from peft import PeftModel

    return model.get_base_model() if isinstance(model, PeftModel) else model
