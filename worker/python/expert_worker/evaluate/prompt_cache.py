"""Keys and values of prompts: of a whole one for its samples and reference answer, of a shared beginning."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from expert_worker.evaluate.generation import GREEDY, answering
from expert_worker.train.fast.cache_name import cache_in
from expert_worker.train.fast.decoder import causal_model
from expert_worker.train.fast.eligible import has_virtual_tokens
from expert_worker.train.fast.roomy_cache import RoomyLayer

# A shorter beginning, such as a system message alone, is computed sooner than its cache is copied.
FEWEST_SHARED = 64


def cache_of(model: Any, pad: int, ids: torch.Tensor, mask: torch.Tensor) -> DynamicCache | None:
    """The keys and values of all tokens but the last, from which generation starts. None where more than
    they decides what follows: virtual tokens of a soft prompt, or the states of a recurrent layer.
    """
    if int(mask.sum(1).min()) < 2 or has_virtual_tokens(model):
        return None
    with answering(model), torch.inference_mode():
        made = model.generate(
            input_ids=ids[:, :-1].to(model.device),
            attention_mask=mask[:, :-1].to(model.device),
            pad_token_id=pad,
            use_cache=True,
            return_dict_in_generate=True,
            max_new_tokens=1,
            **GREEDY,
        )
    cache = cache_in(made)
    return cache if _is_repeatable(cache) else None


def leaves_early(model: Any) -> bool:
    """Whether a batch can continue without some of its rows: layers keep keys and values of each, no more."""
    return not has_virtual_tokens(model) and _is_repeatable(_empty_cache(model))


@dataclass(frozen=True)
class PromptKeys:
    """A batch of padded prompts, and the keys and values of all their tokens but the last."""

    ids: torch.Tensor
    mask: torch.Tensor
    cache: DynamicCache

    @classmethod
    def of(cls, ids: torch.Tensor, mask: torch.Tensor, cache: DynamicCache) -> PromptKeys:
        """`cache` may hold answers, too."""
        return cls(ids, mask, _part(cache, slice(None), ids.shape[1] - 1))

    def rows(self, rows: slice) -> PromptKeys:
        return PromptKeys(self.ids[rows], self.mask[rows], _part(self.cache, rows, self.ids.shape[1] - 1))


def keeps_prompts(model: Any) -> bool:
    """Whether text can follow the keys and values of padded prompts."""
    return not has_virtual_tokens(model) and _allows_padding_within(model)


def _part(cache: DynamicCache, rows: slice, tokens: int) -> DynamicCache:
    """Shares memory with `cache`. A layer that grows copies what it has first."""
    part = copy.copy(cache)
    layers: list[Any] = [copy.copy(layer) for layer in cache.layers]
    for layer in layers:
        layer.keys = layer.keys[rows, ..., :tokens, :]
        layer.values = layer.values[rows, ..., :tokens, :]
    part.layers = layers
    return part


@dataclass(frozen=True)
class SharedBeginning:
    """The tokens with which all prompts begin, such as the examples that a base is shown: computed once.
    Without `cache` there are none.
    """

    ids: tuple[int, ...] = ()
    cache: DynamicCache | None = None

    @classmethod
    def of(cls, model: Any, pad: int, prompts: Sequence[Sequence[int]]) -> SharedBeginning:
        if len(prompts) < 2:
            return cls()
        columns = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
        # One token at least is left of each: generation starts from it.
        shared = tuple(column[0] for column in columns)[: min(map(len, prompts)) - 1]
        if len(shared) < FEWEST_SHARED or not _allows_padding_within(model):
            return cls()
        ids = torch.tensor([prompts[0][: len(shared) + 1]], dtype=torch.long)
        cache = cache_of(model, pad, ids, torch.ones_like(ids))
        return cls() if cache is None else cls(shared, cache)

    def padded(self, prompts: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and mask: the beginning, padding, and the rest, so that each answer starts in the same
        column."""
        start = len(self.ids)
        width = max(len(ids) for ids in prompts)
        ids = torch.full((len(prompts), width), pad, dtype=torch.long)
        mask = torch.zeros((len(prompts), width), dtype=torch.long)
        ids[:, :start] = torch.tensor(self.ids, dtype=torch.long)
        mask[:, :start] = 1
        for place, prompt in enumerate(prompts):
            first = width - len(prompt) + start
            ids[place, first:] = torch.tensor(list(prompt[start:]), dtype=torch.long)
            mask[place, first:] = 1
        return ids, mask

    def repeated(self, rows: int) -> DynamicCache | None:
        """Generation adds to it, so each batch has its own."""
        cache = copy.deepcopy(self.cache)
        if cache is not None:
            cache.batch_repeat_interleave(rows)
        return cache


def _empty_cache(model: Any) -> DynamicCache | None:
    """What the model's layers keep; None where it is no `DynamicCache`."""
    base = causal_model(model)
    if getattr(base, "_is_stateful", True) or base.config.is_encoder_decoder:
        return None
    if not base._supports_default_dynamic_cache() or base.generation_config.cache_implementation:
        return None
    return DynamicCache(config=base.config.get_text_config(decoder=True))


def _is_repeatable(cache: Any) -> bool:
    """Whether it holds keys and values, a row each for every prompt, and nothing else."""
    return type(cache) is DynamicCache and all(
        type(layer) in (DynamicLayer, DynamicSlidingWindowLayer, RoomyLayer) for layer in cache.layers
    )


def _allows_padding_within(model: Any) -> bool:
    """Whether layers know positions and masks as tokens have them. For a sliding window, and in models with
    their own attention code (MPT, GPT-Neo), padding between two tokens counts as distance.
    """
    cache = _empty_cache(model)
    return (
        cache is not None
        and all(type(layer) is DynamicLayer for layer in cache.layers)
        and causal_model(model)._supports_attention_backend
    )
