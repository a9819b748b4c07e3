"""The base model: where it is, and how it is loaded."""

from expert_worker.base.load import (
    base_config,
    compute_dtype,
    fp32_choice,
    load_base,
    load_tokenizer,
    torch_device,
)
from expert_worker.base.locate import locate, weight_files

__all__ = [
    "base_config",
    "compute_dtype",
    "fp32_choice",
    "load_base",
    "load_tokenizer",
    "locate",
    "torch_device",
    "weight_files",
]
