"""rope_scaling in transformers' words: its config keeps one `rope_parameters` mapping."""

from typing import Any

from expert_worker.plan import RopeScaling


def apply(config: Any, scaling: RopeScaling) -> dict[str, Any]:
    """Changes the config in place and returns what it now says."""
    parameters: dict[str, Any] = dict(getattr(config, "rope_parameters", None) or {})
    parameters.setdefault("rope_theta", getattr(config, "rope_theta", 10000.0))
    parameters["rope_type"] = scaling.kind
    parameters["factor"] = scaling.factor
    for name in (
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "low_freq_factor",
        "high_freq_factor",
    ):
        value = getattr(scaling, name)
        if value is not None:
            parameters[name] = value
    for name in ("short_factor", "long_factor"):
        value = getattr(scaling, name)
        if value is not None:
            parameters[name] = list(value)
    if scaling.kind not in ("linear",):
        parameters.setdefault("original_max_position_embeddings", config.max_position_embeddings)
    config.rope_parameters = parameters
    longest = scaling.max_position_embeddings
    if longest is None:
        longest = round(
            parameters.get("original_max_position_embeddings", config.max_position_embeddings)
            * scaling.factor
        )
    config.max_position_embeddings = longest
    return parameters
