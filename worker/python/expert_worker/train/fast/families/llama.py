"""Llama, Mistral, Qwen 2 and 3: separate projections, RMSNorm before attention and MLP, SwiGLU. Qwen 3 also
norms queries and keys per head."""

from __future__ import annotations

from typing import Any

from . import LayerParts


def layer(block: Any) -> LayerParts:
    attention, mlp = block.self_attn, block.mlp
    return LayerParts(
        query=attention.q_proj,
        key=attention.k_proj,
        value=attention.v_proj,
        output=attention.o_proj,
        gate=mlp.gate_proj,
        up=mlp.up_proj,
        down=mlp.down_proj,
        before=block.input_layernorm,
        between=block.post_attention_layernorm,
        query_norm=getattr(attention, "q_norm", None),
        key_norm=getattr(attention, "k_norm", None),
        head_width=int(attention.head_dim),
        scale=float(attention.scaling),
    )


def obstacle(config: Any) -> str | None:
    if config.model_type == "mistral" and getattr(config, "sliding_window", None) is not None:
        return "the base uses sliding-window attention"
    if config.hidden_act not in ("silu", "swish"):
        return f"the base's activation is {config.hidden_act}"
    if getattr(config, "pretraining_tp", 1) != 1:
        return "the base splits its projections (pretraining_tp)"
    return None
