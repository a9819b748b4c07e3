"""Answers from the fast path's layers: transformers' `generate` with another `forward`.

A prompt's tokens are read packed, without padding, by the kernels that training uses. Each further token is
one row of a product for each answer, and its attention reads keys and values where they are: transformers
repeats them for every query head and copies all of them at each token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding, scaled_dot_product_attention
from transformers import DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from .batch import CPU_MULTIPLE
from .between import Between, Norm
from .cache_name import CACHE
from .decoder import causal_model, rotations
from .eligible import obstacle_to_answers
from .families import LayerParts, layout
from .kernels.attention import Documents
from .kernels.choice import Kernels
from .kernels.matmul import times_transposed
from .kernels.registry import Target
from .roomy_cache import RoomyLayer

# Fewer tokens are computed sooner than they are found and copied.
FEWEST_SHARED = 32


@contextmanager
def fast_answers(model: Any) -> Iterator[None]:
    """Inside, an eligible model's `forward` is this file's, with the adapter as it is at the beginning."""
    inner = causal_model(model)
    if "forward" in vars(inner) or obstacle_to_answers(model) is not None:
        yield
        return
    inner.forward = AnsweringDecoder(model).forward
    try:
        yield
    finally:
        del inner.forward


@contextmanager
def plain_answers(model: Any) -> Iterator[None]:
    """Inside, transformers and peft compute what `fast_answers` would."""
    inner = causal_model(model)
    inner.forward = inner.forward
    try:
        yield
    finally:
        del inner.forward


class AnsweringDecoder:
    """The model in evaluation mode."""

    def __init__(self, model: Any) -> None:
        inner = causal_model(model)
        self._body, self._head = inner.model, inner.lm_head.weight.detach()
        self._norm = Norm.of(self._body.norm)
        self._dtype = self._norm.weight.dtype
        kernels = Kernels(Target(self._head.device, self._dtype))
        self._between = Between(kernels)
        read = layout(inner.config.model_type)
        assert read is not None  # The obstacle otherwise.
        self._layers = [_Layer(read.layer(block), kernels, self._between) for block in self._body.layers]

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: DynamicCache | None = None,
        past_key_values: DynamicCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **more: Any,
    ) -> CausalLMOutputWithPast:
        """Logits of the last tokens (of all with 0) of [rows, tokens]. The mask covers the cache, too."""
        # What is ignored may change the answers: the cache had another name before transformers 5.24.
        unknown = [name for name, value in more.items() if value is not None and name != "return_dict"]
        if unknown:
            raise TypeError(f"the fast path was called with {', '.join(unknown)}, which it does not compute")
        rows, count = input_ids.shape
        cache = cache if cache is not None else past_key_values
        kept = cache.get_seq_length() if cache is not None else 0
        mask = input_ids.new_ones((rows, kept + count)) if attention_mask is None else attention_mask
        if position_ids is None:
            position_ids = (mask.cumsum(1) - 1).clamp_min(0)[:, -count:]
        if cache is not None and kept:
            tokens: _Tokens = _Further(mask.bool(), cache, self._dtype)
        else:
            cache = self._empty(cache) if use_cache or cache is not None else None
            tokens = Prompts(input_ids, mask.bool(), cache)
        logits = self._logits(tokens, input_ids, position_ids.expand(rows, count), logits_to_keep or count)
        kept_after: dict[str, Any] = {CACHE: cache}
        return CausalLMOutputWithPast(logits=logits, **kept_after)

    def _empty(self, cache: DynamicCache | None) -> DynamicCache:
        made = cache if cache is not None else DynamicCache()
        made.layers = [RoomyLayer() for _ in self._layers]
        return made

    def _logits(self, tokens: _Tokens, ids: Tensor, positions: Tensor, wanted: int) -> Tensor:
        x = embedding(tokens.chosen(ids), self._body.embed_tokens.weight).to(self._dtype)
        cos, sin = (part.contiguous() for part in rotations(self._body, tokens.chosen(positions)))
        for number, layer in enumerate(self._layers):
            seen = tokens.attend(number, layer, *layer.heads(x, cos, sin))
            if layer is self._layers[-1]:
                # After the last attention, tokens are independent.
                x, seen = tokens.last(x, wanted), tokens.last(seen, wanted)
            x = layer.rest(x, seen)
        return tokens.in_rows(times_transposed(self._between.norm(x, self._norm), self._head), wanted)


class _Layer:
    def __init__(self, parts: LayerParts, kernels: Kernels, between: Between) -> None:
        self.attend, self._between = kernels.attention, between
        self.head_width, self.scale = parts.head_width, parts.scale
        self._qkv, self._output, self._gate_up, self._down = (
            kernels.fixed(modules)
            for modules in (
                (parts.query, parts.key, parts.value),
                (parts.output,),
                (parts.gate, parts.up),
                (parts.down,),
            )
        )
        self._before, self._after = Norm.of(parts.before), Norm.of(parts.between)
        self._head_norms = None
        if parts.query_norm is not None and parts.key_norm is not None:
            self._head_norms = Norm.of(parts.query_norm), Norm.of(parts.key_norm)

    def heads(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values: [tokens, heads, width]."""
        query, key, value = self._qkv(self._between.norm(x, self._before))
        query, key = self._between.heads(query, key, self._head_norms, self.head_width, cos, sin)
        return query, key, value.view(len(value), -1, self.head_width)

    def rest(self, x: Tensor, seen: Tensor) -> Tensor:
        """The layer's output, from its input and what attention has seen."""
        (attended,) = self._output(seen)
        x, normed = self._between.summed(x, attended, self._after)
        (more,) = self._down(self._between.swiglu(*self._gate_up(normed)))
        return x + more


class _Tokens(Protocol):
    def chosen(self, of_rows: Tensor) -> Tensor:
        """Of [rows, tokens], those that are computed."""

    def attend(self, number: int, layer: _Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of layer `number`, which also keeps keys and values: [computed tokens, heads * width]."""

    def last(self, x: Tensor, wanted: int) -> Tensor:
        """Of the computed tokens, those among the last `wanted` ones of each row."""

    def in_rows(self, x: Tensor, wanted: int) -> Tensor:
        """The last ones as [rows, wanted, width]."""


class Prompts:
    """The first tokens of each row, packed: without padding, and what several rows begin with once."""

    def __init__(self, ids: Tensor, mask: Tensor, cache: DynamicCache | None) -> None:
        self._shape, self._cache = mask.shape, cache
        # Of each row, where its tokens stand among those of all rows.
        places = [row.nonzero().squeeze(1) + number * mask.shape[1] for number, row in enumerate(mask)]
        texts = [ids.flatten()[place].tolist() for place in places]
        begins = common_beginnings(texts)
        own = [len(texts[it.text]) - it.shared for it in begins]
        starts = {it.text: start for it, start in zip(begins, accumulate(own, initial=0), strict=False)}
        self._places = torch.cat(places)
        self._computed = torch.cat([places[it.text][it.shared :] for it in begins])
        # Of each of these places, which computed token has its numbers.
        self._source = torch.cat(
            [
                torch.cat([starts[it.first] + torch.arange(it.shared), starts[it.text] + torch.arange(count)])
                for it, count in sorted(zip(begins, own, strict=True))
            ]
        )
        self._filler = -len(self._computed) % CPU_MULTIPLE
        shared = [it.shared for it in begins]
        # A row may be padding alone, and some kernels take no document without tokens.
        documents = [it for it in zip([*own, self._filler], [*shared, 0], strict=True) if it[0]]
        lengths, counts = zip(*documents, strict=True)
        self.documents = Documents(lengths, mask.device, counts if any(counts) else ())

    def chosen(self, of_rows: Tensor) -> Tensor:
        found = of_rows.flatten()[self._computed]
        return torch.cat([found, found.new_zeros(self._filler)])

    def attend(self, number: int, layer: _Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if self._cache is not None:
            keys, values = (self._whole(x).transpose(1, 2) for x in (key, value))
            self._cache.update(keys, values, number)
        return layer.attend(query, key, value, self.documents, layer.scale).flatten(1)

    def _whole(self, x: Tensor) -> Tensor:
        """[rows, tokens, ...] with zeros for padding."""
        rows, count = self._shape
        whole = x.new_zeros((rows * count, *x.shape[1:]))
        whole[self._places] = x[self._source]
        return whole.view(rows, count, *x.shape[1:])

    def last(self, x: Tensor, wanted: int) -> Tensor:
        return x[self._source[self._is_wanted(wanted)]]

    def in_rows(self, x: Tensor, wanted: int) -> Tensor:
        rows, count = self._shape
        place = self._places[self._is_wanted(wanted)]
        if len(place) == rows * wanted:
            return x.view(rows, wanted, -1)
        whole = x.new_zeros((rows, wanted, x.shape[1]))
        whole[place // count, place % count - (count - wanted)] = x
        return whole

    def _is_wanted(self, wanted: int) -> Tensor:
        count = self._shape[1]
        return self._places % count >= count - wanted


class Beginning(NamedTuple):
    """A text, the one that has its first tokens, and how many these are."""

    text: int
    first: int
    shared: int


def common_beginnings(texts: Sequence[list[int]]) -> list[Beginning]:
    """Like texts one after the other, that with their beginning first. No text is all shared."""
    found: list[Beginning] = []
    for text in sorted(range(len(texts)), key=lambda text: texts[text]):
        first = found[-1].first if found else text
        shared = _common(texts[first], texts[text][:-1]) if found else 0
        found.append(Beginning(text, first, shared) if shared >= FEWEST_SHARED else Beginning(text, text, 0))
    return found


def _common(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class _Further:
    """Tokens that follow what the cache holds."""

    def __init__(self, mask: Tensor, cache: DynamicCache, dtype: torch.dtype) -> None:
        self._cache, self._rows = cache, mask.shape[0]
        self._count = mask.shape[1] - cache.get_seq_length()
        self._mask = added(mask, self._count, dtype)

    def chosen(self, of_rows: Tensor) -> Tensor:
        return of_rows.flatten()

    def attend(self, number: int, layer: _Layer, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Query heads that share keys are further queries of one head: keys are not repeated."""
        rows, count, width = self._rows, self._count, query.shape[-1]
        key, value = (x.view(rows, count, -1, width).transpose(1, 2) for x in (key, value))
        keys, values = self._cache.update(key, value, number)
        shared = keys.shape[1]
        asked = query.view(rows, count, shared, -1, width).permute(0, 2, 3, 1, 4)
        mask = self._mask
        if mask is not None and count > 1:
            mask = mask.repeat(1, 1, asked.shape[2], 1)
        seen = scaled_dot_product_attention(
            asked.reshape(rows, shared, -1, width), keys, values, attn_mask=mask, scale=layer.scale
        )
        return seen.view(asked.shape).permute(0, 3, 1, 2, 4).reshape(rows * count, -1)

    def last(self, x: Tensor, wanted: int) -> Tensor:
        return x.view(self._rows, self._count, -1)[:, -wanted:].flatten(0, 1)

    def in_rows(self, x: Tensor, wanted: int) -> Tensor:
        return x.view(self._rows, wanted, -1)


def added(mask: Tensor, count: int, dtype: torch.dtype) -> Tensor | None:
    """[rows, 1, count, all tokens], added to scores; None where every token is seen."""
    if count == 1 and bool(mask.all()):
        return None
    rows, whole = mask.shape
    place = torch.arange(whole, device=mask.device)
    own = place[-count:].unsqueeze(1)
    # What padding sees, nobody reads. If it saw nothing, some kernels would give NaN.
    seen = (mask.unsqueeze(1) & (place <= own)) | (place == own)
    return torch.zeros((rows, 1, count, whole), dtype=dtype).masked_fill_(~seen.unsqueeze(1), float("-inf"))
