"""SwiGLU between adapted layers: what LoRA adds to gate, to up and to the gradient of their product is formed
where these are read anyway. By itself it would be written to memory and read again."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..dropout import Drops, limit
from .dropout import add_parts, parts_of
from .tiles import adapted_tile, is_dropped, load_tile, padded, precision

OPTIONS = {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}
ACTIVATE = {"block_tokens": 32, "block_width": 32, **OPTIONS}
BACK = {"block_tokens": 32, "block_width": 64, **OPTIONS}


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def activate(  # type: ignore[no-untyped-def]
    gate_up,  # noqa: ANN001
    narrow,  # noqa: ANN001
    ups,  # noqa: ANN001
    down,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    out,  # noqa: ANN001
    out_narrow,  # noqa: ANN001
    tokens,  # noqa: ANN001
    width,  # noqa: ANN001
    scale,  # noqa: ANN001
    limit,  # noqa: ANN001
    drops: tl.constexpr,
    rank: tl.constexpr,
    out_rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    """out = silu(gate) * up, and out_narrow = dropout(out) A^T, for a block of tokens."""
    token = tl.program_id(0).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    place = tl.arange(0, ranks)
    is_token, is_rank, is_out_rank = token < tokens, place < rank, place < out_rank
    of_gate = load_tile(narrow, 2 * rank, token, place, is_token, is_rank)
    of_up = load_tile(narrow, 2 * rank, token, rank + place, is_token, is_rank)
    if drops:
        key = tl.load(keys + token, mask=is_token, other=0)
    total = tl.zeros((block_tokens, ranks), tl.float32)
    for at in range(0, width, block_width):
        column = at + tl.arange(0, block_width)
        inside = column < width
        b_gate = tl.trans(load_tile(ups, rank, column, place, inside, is_rank))
        b_up = tl.trans(load_tile(ups + width * rank, rank, column, place, inside, is_rank))
        gate = adapted_tile(
            gate_up, 2 * width, token, column, is_token, inside, of_gate, b_gate, scale, precision
        )
        up = adapted_tile(
            gate_up + width, 2 * width, token, column, is_token, inside, of_up, b_up, scale, precision
        )
        product = (gate * tl.sigmoid(gate) * up).to(out.dtype.element_ty)
        inner = token[:, None] * width + column[None, :]
        tl.store(out + inner, product, mask=is_token[:, None] & inside[None, :])
        if drops:
            own = tl.load(columns + column, mask=inside, other=0)
            product = tl.where(is_dropped(key, own, limit), 0.0, product).to(out.dtype.element_ty)
        a = tl.trans(load_tile(down, width, place, column, is_out_rank, inside))
        total = tl.dot(product, a, total, input_precision=precision)
    tl.store(
        out_narrow + token[:, None] * out_rank + place[None, :],
        total.to(out_narrow.dtype.element_ty),
        mask=is_token[:, None] & is_out_rank[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "part_tokens"])  # type: ignore[untyped-decorator]
def through_activation(  # type: ignore[no-untyped-def]
    grad,  # noqa: ANN001
    back,  # noqa: ANN001
    gate_up,  # noqa: ANN001
    narrow,  # noqa: ANN001
    ups,  # noqa: ANN001
    down,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    to_ups,  # noqa: ANN001
    to_down,  # noqa: ANN001
    tokens,  # noqa: ANN001
    part_tokens,  # noqa: ANN001
    width,  # noqa: ANN001
    scale,  # noqa: ANN001
    limit,  # noqa: ANN001
    drops: tl.constexpr,
    rank: tl.constexpr,
    out_rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    """The gradients of gate and up for a block of columns and a part of the tokens, in place of these, and
    sums over the tokens: the gradients of B of gate and up, and of A of the layer that takes the product."""
    column = tl.program_id(0) * block_width + tl.arange(0, block_width)
    place = tl.arange(0, ranks)
    inside, is_rank, is_out_rank = column < width, place < rank, place < out_rank
    b_gate = tl.trans(load_tile(ups, rank, column, place, inside, is_rank))
    b_up = tl.trans(load_tile(ups + width * rank, rank, column, place, inside, is_rank))
    a = load_tile(down, width, place, column, is_out_rank, inside)
    if drops:
        own = tl.load(columns + column, mask=inside, other=0)
    dtype = gate_up.dtype.element_ty
    start = tl.program_id(1) * part_tokens
    end = tl.minimum(start + part_tokens, tokens)
    sum_gate = tl.zeros((ranks, block_width), tl.float32)
    sum_up = tl.zeros((ranks, block_width), tl.float32)
    sum_down = tl.zeros((ranks, block_width), tl.float32)
    for at in range(start, end, block_tokens):
        token = (at + tl.arange(0, block_tokens)).to(tl.int64)
        is_token = token < end
        both = is_token[:, None] & inside[None, :]
        of_gate = load_tile(narrow, 2 * rank, token, place, is_token, is_rank)
        of_up = load_tile(narrow, 2 * rank, token, rank + place, is_token, is_rank)
        own_back = load_tile(back, out_rank, token, place, is_token, is_out_rank)
        gate = adapted_tile(
            gate_up, 2 * width, token, column, is_token, inside, of_gate, b_gate, scale, precision
        )
        up = adapted_tile(
            gate_up + width, 2 * width, token, column, is_token, inside, of_up, b_up, scale, precision
        )
        through = tl.dot(own_back, a, input_precision=precision)
        share = tl.sigmoid(gate)
        active = gate * share
        product = (active * up).to(dtype)
        if drops:
            key = tl.load(keys + token, mask=is_token, other=0)
            dropped = is_dropped(key, own, limit)
            through = tl.where(dropped, 0.0, through)
            product = tl.where(dropped, 0.0, product).to(dtype)
        slope = load_tile(grad, width, token, column, is_token, inside).to(tl.float32) + through
        sum_down = tl.dot(tl.trans(own_back), product, sum_down, input_precision=precision)
        to_up = (slope * active).to(dtype)
        to_gate = (slope * up * (share + active * (1 - share))).to(dtype)
        sum_gate = tl.dot(tl.trans(of_gate), to_gate, sum_gate, input_precision=precision)
        sum_up = tl.dot(tl.trans(of_up), to_up, sum_up, input_precision=precision)
        outer = gate_up + token[:, None] * (2 * width) + column[None, :]
        tl.store(outer, to_gate, mask=both)
        tl.store(outer + width, to_up, mask=both)
    part = tl.program_id(1).to(tl.int64)
    to_ups += part * (2 * width * rank)
    tall = to_ups + column[:, None] * rank + place[None, :]
    outside = inside[:, None] & is_rank[None, :]
    tl.store(tall, tl.trans(sum_gate) * scale, mask=outside)
    tl.store(tall + width * rank, tl.trans(sum_up) * scale, mask=outside)
    to_down += part * (out_rank * width)
    tl.store(
        to_down + place[:, None] * width + column[None, :],
        sum_down,
        mask=is_out_rank[:, None] & inside[None, :],
    )


class InActivation:
    """See `adapted_mlp.Activation`."""

    def activate(
        self, gate_up: Tensor, narrow: Tensor, ups: Tensor, scale: float, down: Tensor, drops: Drops | None
    ) -> tuple[Tensor, Tensor]:
        tokens, width = len(gate_up), down.shape[1]
        out, out_narrow = gate_up.new_empty((tokens, width)), gate_up.new_empty((tokens, len(down)))
        kernel: Any = activate[(triton.cdiv(tokens, ACTIVATE["block_tokens"]),)]
        given = gate_up, narrow, ups, down, *_drawn(drops, narrow)
        rest = tokens, width, scale, _limit(drops)
        kernel(*given, out, out_narrow, *rest, **settings(narrow.shape[1] // 2, down, drops), **ACTIVATE)
        return out, out_narrow

    def through(
        self,
        grad: Tensor,
        back: Tensor,
        gate_up: Tensor,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        down: Tensor,
        drops: Drops | None,
    ) -> tuple[Tensor, Tensor]:
        tokens, width = grad.shape
        count, part_tokens = parts_of(tokens, BACK["block_tokens"])
        to_ups = ups.new_empty((count, *ups.shape), dtype=torch.float32)
        to_down = down.new_empty((count, *down.shape), dtype=torch.float32)
        kernel: Any = through_activation[triton.cdiv(width, BACK["block_width"]), count]
        given = grad, back, gate_up, narrow, ups, down, *_drawn(drops, narrow)
        rest = tokens, part_tokens, width, scale, _limit(drops)
        kernel(*given, to_ups, to_down, *rest, **settings(narrow.shape[1] // 2, down, drops), **BACK)
        return to_ups, to_down

    def add(self, parts: Tensor, out: Tensor, *, keep: bool) -> None:
        add_parts(parts, out, keep=keep)


def settings(rank: int, down: Tensor, drops: Drops | None) -> dict[str, Any]:
    return {
        "drops": drops is not None,
        "rank": rank,
        "out_rank": len(down),
        "ranks": padded(max(rank, len(down))),
        "precision": precision(),
    }


def _drawn(drops: Drops | None, other: Tensor) -> tuple[Tensor, Tensor]:
    """Without dropout the kernel reads none of them."""
    return (other, other) if drops is None else (drops.keys, drops.columns)


def _limit(drops: Drops | None) -> int:
    return 0 if drops is None else limit(drops.share)
