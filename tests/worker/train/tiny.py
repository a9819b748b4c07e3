"""Tiny models and batches that the training tests share."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from peft import IA3Config, LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from expert_worker.train.fast.batch import PackedBatch, positions_of
from expert_worker.train.fast.dropout import token_keys

SHAPE = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE, tie_word_embeddings=True),
    "mistral": MistralConfig(**SHAPE, sliding_window=None),
}
EVERY_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def base(kind: str = "qwen3", dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(3)
    config = deepcopy(CONFIGS[kind])  # It would remember the dtype.
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def lora(kind: str = "qwen3", *, model: Any = None, dora: bool = False, dropout: float = 0.0) -> Any:
    config = LoraConfig(
        r=4,
        lora_alpha=8,
        lora_dropout=dropout,
        use_dora=dora,
        target_modules=EVERY_LINEAR,
        task_type="CAUSAL_LM",
    )
    return stirred(get_peft_model(model if model is not None else base(kind), config))


def ia3(kind: str = "qwen3") -> Any:
    config = IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        task_type="CAUSAL_LM",
    )
    return stirred(get_peft_model(base(kind), config))


def stirred(model: Any) -> Any:
    """Moves every trained number off its starting value, which often is zero."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def flat(lengths: tuple[int, ...] = (9, 1, 17, 5), seed: int = 11) -> PackedBatch:
    torch.manual_seed(seed)
    total = sum(lengths)
    ids = torch.randint(1, 97, (total,))
    labels = torch.where(torch.rand(total) < 0.5, ids, -100)
    keys = token_keys(1, 1, list(range(len(lengths))), list(lengths))
    return PackedBatch(ids, labels, positions_of(lengths), lengths, keys)


def plain_loss(model: Any, batch: PackedBatch) -> torch.Tensor:
    """Summed loss by transformers' own forward, one document at a time: nothing packed, nothing of ours."""
    total = torch.zeros(())
    start = 0
    for length in batch.lengths:
        span = slice(start, start + length)
        start += length
        logits = model(input_ids=batch.ids[span].unsqueeze(0)).logits[0, :-1].float()
        total = total + torch.nn.functional.cross_entropy(logits, batch.labels[span][1:], reduction="sum")
    return total


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    model.zero_grad()
    return found


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative distance."""
    one, other = one.detach().double(), other.detach().double()
    return float((one - other).norm() / other.norm().clamp_min(1e-12))
