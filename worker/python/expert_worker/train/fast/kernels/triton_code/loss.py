"""Cross entropy of rows of logits, and their gradient in place."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}


@triton.jit  # type: ignore[untyped-decorator]
def row_losses(  # type: ignore[no-untyped-def]
    logits,  # noqa: ANN001
    labels,  # noqa: ANN001
    losses,  # noqa: ANN001
    words,  # noqa: ANN001
    ignored: tl.constexpr,
    want_grad: tl.constexpr,
    block: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    counted = label != ignored
    start = logits + row * words
    columns = tl.arange(0, block)
    # Finite, as the difference of two infinities is not a number.
    peak = tl.full((block,), -1e30, tl.float32)
    total = tl.zeros((block,), tl.float32)
    for at in range(0, words, block):
        part = tl.load(start + at + columns, mask=at + columns < words, other=-1e30).to(tl.float32)
        higher = tl.maximum(peak, part)
        total = total * tl.exp(peak - higher) + tl.exp(part - higher)
        peak = higher
    top = tl.max(peak, 0)
    whole = tl.sum(total * tl.exp(peak - top), 0)
    chosen = tl.load(start + label, mask=counted, other=0.0).to(tl.float32)
    tl.store(losses + row, tl.where(counted, tl.log(whole) + top - chosen, 0.0))
    if want_grad:
        for at in range(0, words, block):
            place, inside = start + at + columns, at + columns < words
            part = tl.load(place, mask=inside, other=0.0).to(tl.float32)
            share = tl.exp(part - top) / whole - tl.where(at + columns == label, 1.0, 0.0)
            tl.store(place, tl.where(counted, share, 0.0).to(logits.dtype.element_ty), mask=inside)


def losses_in_place(logits: Tensor, labels: Tensor, ignored: int, want_grad: bool) -> Tensor:
    """The loss of each row; with `want_grad`, `logits` become its gradient."""
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    kernel: Any = row_losses[(logits.shape[0],)]
    kernel(
        logits,
        labels,
        losses,
        logits.shape[1],
        ignored=ignored,
        want_grad=want_grad,
        block=BLOCK,
        **OPTIONS,
    )
    return losses
