"""What transformers calls the keys and values of the tokens that were read: `cache` since 5.24, before that
`past_key_values`. Its own models take both names; a `forward` that is put in the place of theirs, and peft's
`prepare_inputs_for_generation`, are called with the one of the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from inspect import getsource
from typing import Any

from peft import PeftModelForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

from .eligible import has_virtual_tokens

_OLDER = "past_key_values"
CACHE = "cache" if "cache" in {field.name for field in fields(CausalLMOutputWithPast)} else _OLDER


def cache_in(output: Any) -> Any:
    """Of what a model's `forward` or `generate` returns."""
    return getattr(output, CACHE)


@contextmanager
def cache_known_to_peft(model: Any) -> Iterator[None]:
    """Inside, peft finds the cache, by which it knows whether a soft prompt was read already. Up to 0.21 it
    looks for the older name alone, and would put the soft prompt before each further token.
    """
    if not has_virtual_tokens(model) or CACHE == _OLDER or _peft_knows_newer_name():
        yield
        return
    prepare = model.base_model_prepare_inputs_for_generation

    @wraps(prepare)
    def renamed(*given: Any, **named: Any) -> dict[str, Any]:
        inputs: dict[str, Any] = prepare(*given, **named)
        return {_OLDER if name == CACHE else name: value for name, value in inputs.items()}

    model.base_model_prepare_inputs_for_generation = renamed
    try:
        yield
    finally:
        model.base_model_prepare_inputs_for_generation = prepare
        # Where peft's `generate` puts it at its end.
        model.base_model.prepare_inputs_for_generation = prepare


def _peft_knows_newer_name() -> bool:
    return f'"{CACHE}"' in getsource(PeftModelForCausalLM.prepare_inputs_for_generation)
