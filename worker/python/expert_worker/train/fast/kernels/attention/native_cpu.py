"""Attention in 32 bits on a CPU, by the native module.

A document's keys and values stay in the processor's cache, heads that share keys share them there, and scores
behind the causal mask are not formed: on documents of a few hundred tokens torch's flash kernel takes twice as
long.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from expert_worker import _native

from .. import native
from ..native import memory
from ..registry import Kernel, Target
from .documents import Documents


class _Native(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        out, log_sums = torch.empty_like(q), q.new_empty(q.shape[:2])
        given = [memory(x) for x in (q, k, v)]
        threads = torch.get_num_threads()
        _native.attend(*given, documents.lengths, scale, memory(out), memory(log_sums), threads)
        ctx.save_for_backward(q, k, v, out, log_sums)
        ctx.documents, ctx.scale = documents, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, out, log_sums = ctx.saved_tensors
        found = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        given = [memory(x) for x in (grad.contiguous(), q, k, v, out, log_sums)]
        written = [memory(x) for x in found]
        lengths, threads = ctx.documents.lengths, torch.get_num_threads()
        _native.attend_backward(*given, lengths, ctx.scale, *written, threads)
        return *found, None, None


def attend(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    result: Tensor = _Native.apply(q, k, v, documents, scale)
    return result


def _runs(target: Target) -> bool:
    return native.runs(target) and _native.ATTENTION_RUNS_HERE


NATIVE_CPU = Kernel("native", attend, _runs, "Attention document by document (native, CPU)")
