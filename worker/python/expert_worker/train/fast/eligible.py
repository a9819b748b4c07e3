"""Whether a model may take the fast path: it must compute exactly what transformers + peft would."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from .decoder import causal_model
from .families import layout

SHARDED = "the base's weights are sharded over the processes, which only its own modules support"
VIRTUAL_TOKENS = "prompt learning puts virtual tokens before each row"


def obstacle(model: Any) -> str | None:
    """The reason why the plain path must be used, for the user; None if the model is eligible."""
    inner = causal_model(model)
    for check in (_architecture, _attention, _logits, _trained):
        reason = check(inner)
        if reason is not None:
            return reason
    return _adapter(model)


def obstacle_to_answers(model: Any) -> str | None:
    """The same, where nothing is trained and answers are generated."""
    inner = causal_model(model)
    if inner.device.type != "cpu":
        return "answers are generated on a GPU"
    if isinstance(inner, FSDPModule):
        return SHARDED
    for check in (_architecture, _attention, _logits, _replaced):
        reason = check(inner)
        if reason is not None:
            return reason
    return VIRTUAL_TOKENS if has_virtual_tokens(model) else None


def has_virtual_tokens(model: Any) -> bool:
    """Whether the active adapter is a soft prompt."""
    adapter = getattr(model, "active_peft_config", None)
    return adapter is not None and bool(adapter.is_prompt_learning)


def _architecture(inner: Any) -> str | None:
    kind = inner.config.model_type
    read = layout(kind)
    return f"the architecture {kind} is not supported" if read is None else read.obstacle(inner.config)


def _attention(inner: Any) -> str | None:
    config = inner.config
    if any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ()):
        return "some layers do not attend to all previous tokens"
    if getattr(config, "attention_dropout", 0.0):
        return "the base uses attention dropout"
    return None


def _logits(inner: Any) -> str | None:
    config = inner.config
    for name in ("final_logit_softcapping", "logits_scaling", "logit_scale"):
        if getattr(config, name, None) not in (None, 1, 1.0):
            return f"the base changes its logits ({name})"
    return None


def _trained(inner: Any) -> str | None:
    """The head's shortcut needs a frozen head, and norms and embeddings are read as constants."""
    reason = _replaced(inner)
    if reason is not None:
        return reason
    fixed = [inner.lm_head.weight, inner.model.embed_tokens.weight, inner.model.norm.weight]
    fixed += [parameter for name, parameter in inner.named_parameters() if "norm" in name]
    return "the head, the embedding or a norm is trained" if any(p.requires_grad for p in fixed) else None


def _replaced(inner: Any) -> str | None:
    """Whether modules whose weights are read directly are others than the base's."""
    head, words = inner.lm_head, inner.model.embed_tokens
    if type(head) is not nn.Linear or head.bias is not None:
        return "the head is adapted, quantized or has a bias"
    if type(words) is not nn.Embedding:
        return "the embedding is adapted"
    norms = {type(module) for name, module in inner.named_modules() if name.endswith("norm")}
    return "a norm is adapted" if len(norms) > 1 else None


def _adapter(model: Any) -> str | None:
    config = getattr(model, "peft_config", {}).get("default")
    if config is not None and getattr(config, "is_prompt_learning", False):
        return VIRTUAL_TOKENS
    if getattr(config, "rank_dropout", 0.0):
        return "this adapter's dropout draws from torch's own generator"
    return None
