"""`rope_scaling` of a manifest, on the base's own configuration."""

from __future__ import annotations

from typing import Any

from expert_worker.errors import BadInput
from expert_worker.plan import RopeScaling


def rope_settings(scaling: RopeScaling) -> dict[str, Any]:
    """What the manifest sets of transformers' `rope_parameters`."""
    given = scaling.model_dump(mode="json", exclude_none=True)
    given.pop("max_position_embeddings", None)
    return {"rope_type": given.pop("kind"), **given}


def text_config(config: Any) -> Any:
    """The part that describes the decoder, where a base has others."""
    return config.get_text_config(decoder=True)


def rope_parameters(config: Any) -> dict[str, Any]:
    """transformers' mapping that a scaling is written into: where each kind of layer has its own, that of the
    layers with full attention, as transformers reads the `rope_scaling` of a config.json."""
    found: dict[str, Any] = getattr(text_config(config), "rope_parameters", None) or {}
    if any(isinstance(own, dict) for own in found.values()):
        return found.get("full_attention") or {}
    return found


def apply_rope_scaling(config: Any, scaling: RopeScaling) -> None:
    """Writes into the config's `rope_parameters`, and sets the length that results."""
    text, parameters = text_config(config), rope_parameters(config)
    # Falcon has rotary settings also where its positions are ALiBi's.
    if not parameters or getattr(text, "alibi", False):
        raise BadInput(
            f"The base's architecture {text.model_type} has no rotary positions that can be scaled",
            hint="Remove `rope_scaling`, or choose another base.",
            code="rope-scaling",
        )
    parameters |= rope_settings(scaling)
    if scaling.kind not in ("linear",):
        parameters.setdefault("original_max_position_embeddings", text.max_position_embeddings)
    original = parameters.get("original_max_position_embeddings", text.max_position_embeddings)
    if scaling.kind == "dynamic":
        # transformers scales what is longer than this; any longer, and nothing would be scaled up to there.
        text.max_position_embeddings = original
    else:
        text.max_position_embeddings = _longest(scaling, original)


def scaled_length(config: Any, scaling: RopeScaling) -> int:
    """Tokens of the longest text that a base of this scaled config is made for."""
    most = int(text_config(config).max_position_embeddings)
    return _longest(scaling, most) if scaling.kind == "dynamic" else most


def _longest(scaling: RopeScaling, original: int) -> int:
    return scaling.max_position_embeddings or round(original * scaling.factor)


def follows_longest_row(rotary: Any) -> str | None:
    """The kind of rotary positions, if their frequencies follow from the longest row computed at once."""
    return next((kind for kind in _kinds(rotary).values() if "dynamic" in kind or kind == "longrope"), None)


def _kinds(rotary: Any) -> dict[str, str]:
    """By what their names begin with: a module may have frequencies for each kind of layer."""
    kind = getattr(rotary, "rope_type", "default")
    return {f"{layer}_": str(it) for layer, it in kind.items()} if isinstance(kind, dict) else {"": str(kind)}


def scale_by_the_batch_alone(model: Any) -> None:
    """transformers' dynamic scaling keeps the frequencies of the longest row so far. Here they follow from
    the rows that are computed at once: a resumed run or a later request has not seen the rows before."""

    def forget(rotary: Any, _inputs: Any) -> None:
        for start in _dynamic(rotary):
            used, own = getattr(rotary, f"{start}inv_freq"), getattr(rotary, f"{start}original_inv_freq")
            # Not asked of `max_seq_len_cached`, which transformers 5.5 leaves as it was.
            if used is not own:
                rotary.register_buffer(f"{start}inv_freq", own.to(used.device), persistent=False)
                setattr(rotary, f"{start}max_seq_len_cached", rotary.original_max_seq_len)

    for module in model.modules():
        if _dynamic(module):
            module.register_forward_pre_hook(forget)


def _dynamic(rotary: Any) -> list[str]:
    return [start for start, kind in _kinds(rotary).items() if kind == "dynamic"]
