"""Attention for documents that continue a beginning which stands in the batch once.

Products over tokens are most of the work, and done once for shared tokens; attention itself is computed as if
each document were there whole, by whichever kernel was chosen.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .documents import Attention, Documents


class _Repeated(torch.autograd.Function):
    """Rows at the given places. Gradients of a row that is there several times are added in 32 bits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.rows = len(x)
        return x.index_select(0, places)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        total = torch.zeros((ctx.rows, *grad.shape[1:]), dtype=torch.float32, device=grad.device)
        return total.index_add_(0, places, grad.float()).to(grad.dtype), None


def shared_beginnings(attend: Attention) -> Attention:
    """The kernel, for documents with and without shared beginnings."""

    def attention(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
        if not documents.shared:
            return attend(q, k, v, documents, scale)
        places, whole = documents.repeated
        q, k, v = (_Repeated.apply(x, places) for x in (q, k, v))
        return attend(q, k, v, whole, scale).index_select(0, documents.kept)

    return attention
