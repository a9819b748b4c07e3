"""Which kinds of adapters a form can hold, and what to do with the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expert_worker.adapter import AdapterTraits, peft_kinds
from expert_worker.errors import BadInput

_ALONE = "Export it with --adapter: only peft loads one."


def demand_mergeable(config: Mapping[str, Any]) -> None:
    traits = _traits(config)
    if traits is not None and traits.is_soft_prompt:
        raise BadInput(
            "A soft prompt cannot be merged: it is not part of the weights", hint=_ALONE, code="cannot-merge"
        )


def without_form(config: Mapping[str, Any], form: str, loads: str, merge: str, code: str) -> BadInput:
    """`loads` says which adapters this form can have, `merge` how the others are exported."""
    traits = _traits(config)
    name = "DoRA" if config.get("use_dora") else traits.title if traits else str(config.get("peft_type"))
    is_soft_prompt = traits is not None and traits.is_soft_prompt
    what = "A soft prompt" if is_soft_prompt else f"An adapter of the kind {name}"
    return BadInput(
        f"{what} has no form in {form}{loads}", hint=_ALONE if is_soft_prompt else merge, code=code
    )


def _traits(config: Mapping[str, Any]) -> AdapterTraits | None:
    return peft_kinds().get(str(config.get("peft_type")))
