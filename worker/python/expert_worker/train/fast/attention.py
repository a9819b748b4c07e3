"""Causal attention that never crosses from one document into the next, and never builds a mask.

CPU: document by document, with products in 32 bits by torch's flash attention on views of the packed row, in
16 bits by blocks. CUDA: one variable-length kernel over all. Elsewhere, and where neither kernel exists:
torch's own attention on each document.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from .blocked import blocked

_FORWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_BACKWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)


@dataclass(frozen=True)
class Documents:
    """The documents of a packed batch, end to end."""

    lengths: tuple[int, ...]
    device: torch.device

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        return list(pairwise(starts))

    @cached_property
    def boundaries(self) -> Tensor:
        return torch.tensor([0, *(end for _, end in self.spans)], dtype=torch.int32, device=self.device)

    @cached_property
    def mask(self) -> Tensor:
        """The attention mask over the whole batch: its size is the square of the batch's."""
        lengths = torch.tensor(self.lengths, device=self.device)
        document = torch.repeat_interleave(torch.arange(len(self.lengths), device=self.device), lengths)
        return (document.unsqueeze(0) == document.unsqueeze(1)).tril()

    @cached_property
    def longest(self) -> int:
        return max(self.lengths)


def _heads_first(x: Tensor, start: int, end: int, repeat: int) -> Tensor:
    """[1, heads, length, width] of one document; grouped key heads are repeated for their queries."""
    part = x[start:end].transpose(0, 1)
    if repeat > 1:
        part = part.repeat_interleave(repeat, 0)
    return part.unsqueeze(0)


class _FlashCpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
        out, repeat = torch.empty_like(q), q.shape[1] // k.shape[1]
        sums = []
        for start, end in documents.spans:
            query = _heads_first(q, start, end, 1).float()
            key, value = (_heads_first(x, start, end, repeat).float() for x in (k, v))
            part, log_sum = _FORWARD(query, key, value, 0.0, True, scale=scale)  # type: ignore[misc]
            out[start:end] = part[0].transpose(0, 1)
            sums.append(log_sum)
        ctx.save_for_backward(q, k, v, out, *sums)
        ctx.documents, ctx.scale = documents, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, out, *sums = ctx.saved_tensors
        to_q, to_k, to_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        groups = k.shape[1]
        repeat = q.shape[1] // groups
        for (start, end), log_sum in zip(ctx.documents.spans, sums, strict=True):
            query, answer, back = (_heads_first(x, start, end, 1).float() for x in (q, out, grad))
            key, value = (_heads_first(x, start, end, repeat).float() for x in (k, v))
            dq, dk, dv = _BACKWARD(  # type: ignore[misc]
                back, query, key, value, answer, log_sum, 0.0, True, scale=ctx.scale
            )
            to_q[start:end] = dq[0].transpose(0, 1)
            to_k[start:end] = dk[0].unflatten(0, (groups, repeat)).sum(1).transpose(0, 1)
            to_v[start:end] = dv[0].unflatten(0, (groups, repeat)).sum(1).transpose(0, 1)
        return to_q, to_k, to_v, None, None


def _by_document(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    repeat = q.shape[1] // k.shape[1]
    parts = [
        scaled_dot_product_attention(
            _heads_first(q, *span, 1),
            _heads_first(k, *span, repeat),
            _heads_first(v, *span, repeat),
            is_causal=True,
            scale=scale,
        )[0].transpose(0, 1)
        for span in documents.spans
    ]
    return torch.cat(parts)


def _masked(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    repeat, end = q.shape[1] // k.shape[1], q.shape[0]
    seen = scaled_dot_product_attention(
        _heads_first(q, 0, end, 1),
        _heads_first(k, 0, end, repeat),
        _heads_first(v, 0, end, repeat),
        attn_mask=documents.mask,
        scale=scale,
    )
    return seen[0].transpose(0, 1)


def _varlen(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

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
        enable_gqa=q.shape[1] != k.shape[1],
    )
    assert isinstance(result, Tensor)  # A tuple only if the log-sums are requested.
    return result


def _flash(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
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


def kernel(device: torch.device, dtype: torch.dtype, flash: bool, by_document: bool = True) -> str:
    """The kernel in use; the run reports this name."""
    if not by_document:
        return "sdpa_masked"
    if device.type == "cpu" and dtype != torch.float32:
        return "blocks_cpu"
    if device.type == "cpu" and _FORWARD is not None and _BACKWARD is not None:
        return "flash_cpu"
    if device.type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        if flash and _installed("flash_attn"):
            return "flash_attn_varlen"
        if _installed("torch.nn.attention.varlen") and _runs_flash(device):
            return "torch_varlen"
    return "sdpa_by_document"


def _runs_flash(device: torch.device) -> bool:
    """torch's own kernel is compiled for compute capability 8.0 and above."""
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _installed(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def attend(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float, way: str) -> Tensor:
    """`q` is [tokens, heads, width]; `k` and `v` may have fewer heads."""
    if way == "flash_cpu":
        result: Tensor = _FlashCpu.apply(q, k, v, documents, scale)
        return result
    if way == "blocks_cpu":
        return blocked(q, k, v, documents.spans, scale)
    ways = {"torch_varlen": _varlen, "flash_attn_varlen": _flash, "sdpa_masked": _masked}
    return ways.get(way, _by_document)(q, k, v, documents, scale)
