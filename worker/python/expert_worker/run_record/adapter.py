"""A peft adapter as documents whose bytes depend on nothing but the adapter."""

from enum import Enum
from typing import Any

import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict


def adapter_config(config: PeftConfig, base: str) -> dict[str, Any]:
    """As peft writes it, but module lists sorted (sets have hash order) and the base by its logical name."""
    document = {key: _plain(value) for key, value in config.to_dict().items()}
    document["base_model_name_or_path"] = base
    document["inference_mode"] = True
    if document.get("tokenizer_name_or_path") is not None:
        document["tokenizer_name_or_path"] = base
    return document


def adapter_tensors(model: PeftModel) -> dict[str, torch.Tensor]:
    """Under the names that `PeftModel.from_pretrained` looks for; base embeddings are never among them."""
    found: dict[str, torch.Tensor] = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: tensor.detach() for name, tensor in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
