"""Attention in 32 bits on a CPU: torch's flash attention on one document after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..registry import Kernel, Target
from .documents import Documents, heads_first

_FORWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
_BACKWARD = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)


class _FlashCpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
        out, repeat = torch.empty_like(q), q.shape[1] // k.shape[1]
        sums = []
        for start, end in documents.spans:
            query = heads_first(q, start, end, 1).float()
            key, value = (heads_first(x, start, end, repeat).float() for x in (k, v))
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
            query, answer, back = (heads_first(x, start, end, 1).float() for x in (q, out, grad))
            key, value = (heads_first(x, start, end, repeat).float() for x in (k, v))
            dq, dk, dv = _BACKWARD(  # type: ignore[misc]
                back, query, key, value, answer, log_sum, 0.0, True, scale=ctx.scale
            )
            to_q[start:end] = dq[0].transpose(0, 1)
            to_k[start:end] = dk[0].unflatten(0, (groups, repeat)).sum(1).transpose(0, 1)
            to_v[start:end] = dv[0].unflatten(0, (groups, repeat)).sum(1).transpose(0, 1)
        return to_q, to_k, to_v, None, None


def attend(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    result: Tensor = _FlashCpu.apply(q, k, v, documents, scale)
    return result


def _runs(target: Target) -> bool:
    exists = _FORWARD is not None and _BACKWARD is not None
    return exists and target.device.type == "cpu" and target.dtype == torch.float32


FLASH_CPU = Kernel("flash_cpu", attend, _runs, "Attention document by document (flash, CPU)")
