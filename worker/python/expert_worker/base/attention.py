"""Which attention the base computes with: FlashAttention where asked for and possible, else SDPA or eager."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from expert_worker.plan import Machine

FLASH = "flash_attention_2"
# Of the GPUs that flash-attn has kernels for.
_LEAST_CAPABILITY = (8, 0)


def attention_of(machine: Machine, config: Any, device: torch.device, dtype: torch.dtype) -> str:
    """As transformers names it."""
    if machine.flash_attention and no_flash_attention(config, device, dtype) is None:
        return FLASH
    return "sdpa" if machine.sdpa and _supports(config, "_supports_sdpa") else "eager"


def no_flash_attention(config: Any, device: torch.device, dtype: torch.dtype) -> str | None:
    """Why transformers cannot compute the base's attention with flash-attn; None where it can."""
    if (reason := flash_attn_obstacle(device, dtype)) is not None:
        return reason
    return None if _supports(config, "_supports_flash_attn") else f"{config.model_type} does not support it"


def flash_attn_obstacle(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the package flash-attn does not compute here; None where it does."""
    if device.type != "cuda":
        return f"flash-attn needs CUDA, and the run is on {device.type}"
    if find_spec("flash_attn") is None:
        return "flash-attn is not installed"
    if dtype not in (torch.bfloat16, torch.float16):
        return f"flash-attn computes in bf16 and fp16, and the run in {str(dtype).removeprefix('torch.')}"
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < _LEAST_CAPABILITY:
        return f"flash-attn needs compute capability 8.0, and the GPU has {major}.{minor}"
    return None


def _supports(config: Any, flag: str) -> bool:
    """As transformers decides it; False for families whose attention a kernel cannot compute, such as Gemma 2
    with SDPA."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    known = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    return bool(getattr(known, flag, True))
