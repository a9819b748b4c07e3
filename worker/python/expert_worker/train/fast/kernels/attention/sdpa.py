"""torch's own attention: on each document, or on the whole batch with a mask."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ..registry import Kernel, Target
from .documents import Attention, Documents, heads_first


def by_document(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    repeat = q.shape[1] // k.shape[1]
    parts = [
        scaled_dot_product_attention(
            heads_first(q, *span, 1),
            heads_first(k, *span, repeat),
            heads_first(v, *span, repeat),
            is_causal=True,
            scale=scale,
        )[0].transpose(0, 1)
        for span in documents.spans
    ]
    return torch.cat(parts)


def masked(q: Tensor, k: Tensor, v: Tensor, documents: Documents, scale: float) -> Tensor:
    repeat, end = q.shape[1] // k.shape[1], q.shape[0]
    seen = scaled_dot_product_attention(
        heads_first(q, 0, end, 1),
        heads_first(k, 0, end, repeat),
        heads_first(v, 0, end, repeat),
        attn_mask=documents.mask,
        scale=scale,
    )
    return seen[0].transpose(0, 1)


SDPA_BY_DOCUMENT: Kernel[Target, Attention] = Kernel(
    "sdpa_by_document", by_document, label="SDPA document by document"
)
SDPA_MASKED: Kernel[Target, Attention] = Kernel(
    "sdpa_masked", masked, label="SDPA over the whole batch with a mask"
)
