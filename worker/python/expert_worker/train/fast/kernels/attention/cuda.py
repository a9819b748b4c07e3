"""Attention on CUDA in 16 bits: one variable-length kernel over all documents, of torch or of flash-attn."""

from __future__ import annotations

import inspect
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from expert_worker.base.attention import flash_attn_obstacle

from ..registry import Kernel, Target
from .documents import Documents

# Of a head's width; torch's kernel refuses others.
_WIDTH_MULTIPLE = 8


def torch_varlen(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    width = q.shape[-1]
    if missing := -width % _WIDTH_MULTIPLE:
        # Zeros change neither the scores, whose scale is given, nor the columns of the result that are kept.
        q, k, v = (torch.nn.functional.pad(it, (0, missing)) for it in (q, k, v))
    fewer_keys: dict[str, Any] = {}
    if q.shape[1] != k.shape[1] and _asks_for_fewer_keys():
        fewer_keys["enable_gqa"] = True
    result = varlen_attn(
        q,
        k,
        v,
        documents.boundaries,
        documents.boundaries,
        documents.longest,
        documents.longest,
        scale=scale,
        window_size=(-1, 0),
        **fewer_keys,
    )
    assert isinstance(result, Tensor)  # A tuple only if the log-sums are requested.
    return result[..., :width] if missing else result


@cache
def _asks_for_fewer_keys() -> bool:
    """Whether the call must say that queries share keys and values; torch 2.11 sees it by their shapes."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def flash_attn(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    from flash_attn import flash_attn_varlen_func  # type: ignore[import-not-found]

    result: Tensor = flash_attn_varlen_func(
        q,
        k,
        v,
        documents.boundaries,
        documents.boundaries,
        documents.longest,
        documents.longest,
        softmax_scale=scale,
        causal=True,
    )
    return result


def _runs_torch(target: Target) -> bool:
    """torch's own kernel is compiled for compute capability 8.0 and above."""
    in_16_bits = target.dtype in (torch.bfloat16, torch.float16)
    if target.device.type != "cuda" or not in_16_bits or not _installed("torch.nn.attention.varlen"):
        return False
    return torch.cuda.get_device_capability(target.device) >= (8, 0)


def _runs_flash_attn(target: Target) -> bool:
    return target.flash_attention and flash_attn_obstacle(target.device, target.dtype) is None


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


FLASH_ATTN = Kernel(
    "flash_attn_varlen", flash_attn, _runs_flash_attn, "Variable-length attention (flash-attn)"
)
TORCH_VARLEN = Kernel("torch_varlen", torch_varlen, _runs_torch, "Variable-length attention (torch)")
