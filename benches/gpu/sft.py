"""One case as TRL's SFTTrainer takes it, which Unsloth uses too."""

from __future__ import annotations

from typing import Any

import torch
from data import documents
from datasets import Dataset
from shapes import Case, Shape

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def rows(case: Case, shape: Shape) -> Dataset:
    return Dataset.from_list(
        [
            {"input_ids": prompt + answer, "completion_mask": [0] * len(prompt) + [1] * len(answer)}
            for prompt, answer in documents(case, shape)
        ]
    )


def adapter(case: Case) -> dict[str, Any]:
    """As peft's LoraConfig and Unsloth's get_peft_model name it."""
    return {
        "r": case.rank,
        "lora_alpha": 2 * case.rank,
        "lora_dropout": case.dropout,
        "use_dora": case.adapter == "dora",
        "target_modules": LINEARS,
    }


def settings(case: Case, device: torch.device, folder: str) -> dict[str, Any]:
    """Arguments of an SFTConfig."""
    return {
        "output_dir": folder,
        "max_steps": case.steps,
        "per_device_train_batch_size": case.rows,
        "max_length": case.length,
        "packing": True,
        "gradient_checkpointing": False,
        "bf16": case.dtype == "bf16",
        "fp16": False,
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
        "optim": "adamw_torch_fused",
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "use_cpu": device.type == "cpu",
        "disable_tqdm": True,
        "completion_only_loss": True,
    }
