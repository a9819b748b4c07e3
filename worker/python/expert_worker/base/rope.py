"""`rope_scaling` of a manifest, on the base's own configuration."""

from __future__ import annotations

from typing import Any

from expert_worker.plan import RopeScaling


def rope_settings(scaling: RopeScaling) -> dict[str, Any]:
    """What the manifest sets of transformers' `rope_parameters`."""
    given = scaling.model_dump(mode="json", exclude_none=True)
    given.pop("max_position_embeddings", None)
    return {"rope_type": given.pop("kind"), **given}


def apply_rope_scaling(config: Any, scaling: RopeScaling) -> dict[str, Any]:
    """Sets the config's `rope_parameters`, transformers' one mapping for it, and returns them."""
    parameters: dict[str, Any] = dict(getattr(config, "rope_parameters", None) or {})
    parameters.setdefault("rope_theta", getattr(config, "rope_theta", 10000.0))
    parameters |= rope_settings(scaling)
    if scaling.kind not in ("linear",):
        parameters.setdefault("original_max_position_embeddings", config.max_position_embeddings)
    config.rope_parameters = parameters
    original = parameters.get("original_max_position_embeddings", config.max_position_embeddings)
    if scaling.kind == "dynamic":
        # transformers scales what is longer than this; any longer, and nothing would be scaled up to there.
        config.max_position_embeddings = original
    else:
        config.max_position_embeddings = _longest(scaling, original)
    return parameters


def scaled_length(config: Any, scaling: RopeScaling) -> int:
    """Tokens of the longest text that a base of this scaled config is made for."""
    most = int(config.max_position_embeddings)
    return _longest(scaling, most) if scaling.kind == "dynamic" else most


def _longest(scaling: RopeScaling, original: int) -> int:
    return scaling.max_position_embeddings or round(original * scaling.factor)


def follows_longest_row(rotary: Any) -> str | None:
    """The kind of rotary positions, if their frequencies follow from the longest row computed at once."""
    kind = str(getattr(rotary, "rope_type", "default"))
    return kind if "dynamic" in kind or kind == "longrope" else None


def scale_by_the_batch_alone(model: Any) -> None:
    """transformers' dynamic scaling keeps the frequencies of the longest row so far. Here they follow from
    the rows that are computed at once: a resumed run or a later request has not seen the rows before."""

    def forget(rotary: Any, _inputs: Any) -> None:
        # Not asked of `max_seq_len_cached`, which transformers 5.5 leaves as it was.
        if rotary.inv_freq is not rotary.original_inv_freq:
            device = rotary.inv_freq.device
            rotary.register_buffer("inv_freq", rotary.original_inv_freq.to(device), persistent=False)
            rotary.max_seq_len_cached = rotary.original_max_seq_len

    for module in model.modules():
        if getattr(module, "rope_type", None) == "dynamic":
            module.register_forward_pre_hook(forget)
