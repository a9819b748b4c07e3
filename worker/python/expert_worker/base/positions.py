"""The positions that a base has for the tokens of one row, where their number is fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expert_worker.base.families import family
from expert_worker.errors import BadInput

# Of a configuration: architectures have other names for it. `plan` reads a base's length by the same names.
_NAMES = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def of_config(config: Mapping[str, Any]) -> int | None:
    """By any of the names; None where the base sets no limit."""
    text = config.get("text_config", config)
    return next((text[name] for name in _NAMES if isinstance(text.get(name), int)), None)


def longest(model: Any) -> int | None:
    """Tokens of the longest row with its answer, beside those of a soft prompt. None where longer ones can be
    computed."""
    config = model.config
    known = family(config.model_type)
    if known is None or config.model_type not in known.bounded_positions:
        return None
    found = (getattr(config, name, None) for name in _NAMES)
    return next(most for most in found if isinstance(most, int)) - _soft_tokens(model)


def too_long(tokens: int, most: int) -> BadInput:
    return BadInput(
        f"The prompt has {tokens} tokens; the base has {most} positions for prompt and answer",
        hint="Shorten the prompt, or choose a base whose positions have no limit.",
        code="prompt-too-long",
    )


def _soft_tokens(model: Any) -> int:
    adapter = getattr(model, "active_peft_config", None)
    if adapter is None or not adapter.is_prompt_learning or model._adapters_disabled:
        return 0
    return int(adapter.num_virtual_tokens)
