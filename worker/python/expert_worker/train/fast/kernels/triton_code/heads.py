"""Queries, keys and values of adapted layers: what LoRA adds to them is formed where their norms and rotary
positions read them anyway."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .tiles import FEWEST_RANKS, adapted_tile, load_tile, padded, precision

OPTIONS = {"num_warps": 4, "num_stages": 2, "enable_fp_fusion": True}
TURN = {"block_tokens": 32, **OPTIONS}
BACK = {"block_tokens": 16, **OPTIONS}
# Sums for fewer ranks take more registers: 250 for 16 ranks, 162 for 32 (compute capability 8.9).
FEWEST_BACK = 32


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def turn(  # type: ignore[no-untyped-def]
    qkv,  # noqa: ANN001
    narrow,  # noqa: ANN001
    ups,  # noqa: ANN001
    cos,  # noqa: ANN001
    sin,  # noqa: ANN001
    norms,  # noqa: ANN001
    turned,  # noqa: ANN001
    values,  # noqa: ANN001
    tokens,  # noqa: ANN001
    first_key,  # noqa: ANN001
    first_value,  # noqa: ANN001
    heads,  # noqa: ANN001
    values_stride,  # noqa: ANN001
    angle_stride,  # noqa: ANN001
    scale,  # noqa: ANN001
    epsilon,  # noqa: ANN001
    normed: tl.constexpr,
    half: tl.constexpr,
    halves: tl.constexpr,
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
) -> None:
    """One head of a block of tokens."""
    head = tl.program_id(0)
    token = tl.program_id(1).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    place, one = tl.arange(0, ranks), tl.arange(0, halves)
    is_token, is_rank, inside = token < tokens, place < rank, one < half
    both = is_token[:, None] & inside[None, :]
    layer = (head >= first_key).to(tl.int32) + (head >= first_value).to(tl.int32)
    own = load_tile(narrow, 3 * rank, token, layer * rank + place, is_token, is_rank)
    row, column = heads * 2 * half, head * 2 * half + one
    b = tl.trans(load_tile(ups, rank, column, place, inside, is_rank))
    first = adapted_tile(qkv, row, token, column, is_token, inside, own, b, scale, precision)
    b = tl.trans(load_tile(ups, rank, column + half, place, inside, is_rank))
    second = adapted_tile(qkv, row, token, column + half, is_token, inside, own, b, scale, precision)
    if head < first_value:
        if normed:
            weight = norms + layer * 2 * half + one
            square = tl.sum(first * first, 1) + tl.sum(second * second, 1)
            by = tl.rsqrt(square / (2 * half) + epsilon)[:, None]
            first = first * by * tl.load(weight, mask=inside, other=0.0).to(tl.float32)[None, :]
            second = second * by * tl.load(weight + half, mask=inside, other=0.0).to(tl.float32)[None, :]
        c = load_tile(cos, angle_stride, token, one, is_token, inside).to(tl.float32)
        s = load_tile(sin, angle_stride, token, one, is_token, inside).to(tl.float32)
        out = turned + token[:, None] * (first_value * 2 * half) + column[None, :]
        tl.store(out, (first * c - second * s).to(turned.dtype.element_ty), mask=both)
        tl.store(out + half, (second * c + first * s).to(turned.dtype.element_ty), mask=both)
    else:
        column -= first_value * 2 * half
        out = values + token[:, None] * values_stride + column[None, :]
        tl.store(out, first.to(values.dtype.element_ty), mask=both)
        tl.store(out + half, second.to(values.dtype.element_ty), mask=both)


@triton.jit  # type: ignore[untyped-decorator]
def _back(  # type: ignore[no-untyped-def] # noqa: ANN202
    grad,  # noqa: ANN001
    qkv,  # noqa: ANN001
    narrow,  # noqa: ANN001
    ups,  # noqa: ANN001
    cos,  # noqa: ANN001
    sin,  # noqa: ANN001
    norms,  # noqa: ANN001
    back,  # noqa: ANN001
    token,  # noqa: ANN001
    is_token,  # noqa: ANN001
    from_head,  # noqa: ANN001
    to_head,  # noqa: ANN001
    row,  # noqa: ANN001
    scale,  # noqa: ANN001
    epsilon,  # noqa: ANN001
    layer: tl.constexpr,
    normed: tl.constexpr,
    half: tl.constexpr,
    halves: tl.constexpr,
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
):
    """All heads of one layer. Gradients of its outputs take the place of these."""
    place, one = tl.arange(0, ranks), tl.arange(0, halves)
    is_rank, inside = place < rank, one < half
    both = is_token[:, None] & inside[None, :]
    own = load_tile(narrow, 3 * rank, token, layer * rank + place, is_token, is_rank)
    total = tl.zeros((token.shape[0], ranks), tl.float32)
    dtype = qkv.dtype.element_ty
    for head in range(from_head, to_head):
        column = head * 2 * half + one
        low = load_tile(ups, rank, column, place, inside, is_rank)
        high = load_tile(ups, rank, column + half, place, inside, is_rank)
        at = (head - from_head) * 2 * half + one
        width = (to_head - from_head) * 2 * half
        first = load_tile(grad, width, token, at, is_token, inside).to(tl.float32)
        second = load_tile(grad, width, token, at + half, is_token, inside).to(tl.float32)
        if layer < 2:
            first, second = first * cos + second * sin, second * cos - first * sin
            if normed:
                x = adapted_tile(
                    qkv, row, token, column, is_token, inside, own, tl.trans(low), scale, precision
                )
                y = adapted_tile(
                    qkv, row, token, column + half, is_token, inside, own, tl.trans(high), scale, precision
                )
                weight = norms + layer * 2 * half + one
                first = first * tl.load(weight, mask=inside, other=0.0).to(tl.float32)[None, :]
                second = second * tl.load(weight + half, mask=inside, other=0.0).to(tl.float32)[None, :]
                square = tl.sum(x * x, 1) + tl.sum(y * y, 1)
                by = tl.rsqrt(square / (2 * half) + epsilon)[:, None]
                along = (tl.sum(first * x, 1) + tl.sum(second * y, 1))[:, None] / (2 * half) * by * by
                first, second = (first - x * along) * by, (second - y * along) * by
        low_grad, high_grad = first.to(dtype), second.to(dtype)
        out = qkv + token[:, None] * row + column[None, :]
        tl.store(out, low_grad, mask=both)
        tl.store(out + half, high_grad, mask=both)
        total = tl.dot(low_grad, low, total, input_precision=precision)
        total = tl.dot(high_grad, high, total, input_precision=precision)
    tl.store(
        back + token[:, None] * (3 * rank) + layer * rank + place[None, :],
        (total * scale).to(back.dtype.element_ty),
        mask=is_token[:, None] & is_rank[None, :],
    )


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def turn_back(  # type: ignore[no-untyped-def]
    to_query,  # noqa: ANN001
    to_key,  # noqa: ANN001
    to_value,  # noqa: ANN001
    qkv,  # noqa: ANN001
    narrow,  # noqa: ANN001
    ups,  # noqa: ANN001
    cos,  # noqa: ANN001
    sin,  # noqa: ANN001
    norms,  # noqa: ANN001
    back,  # noqa: ANN001
    tokens,  # noqa: ANN001
    first_key,  # noqa: ANN001
    first_value,  # noqa: ANN001
    heads,  # noqa: ANN001
    angle_stride,  # noqa: ANN001
    scale,  # noqa: ANN001
    epsilon,  # noqa: ANN001
    normed: tl.constexpr,
    half: tl.constexpr,
    halves: tl.constexpr,
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
) -> None:
    """The gradients of the layers' outputs for a block of tokens, and of their low-rank inputs."""
    token = tl.program_id(0).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    is_token, one = token < tokens, tl.arange(0, halves)
    c = load_tile(cos, angle_stride, token, one, is_token, one < half).to(tl.float32)
    s = load_tile(sin, angle_stride, token, one, is_token, one < half).to(tl.float32)
    row = heads * 2 * half
    _back(
        to_query, qkv, narrow, ups, c, s, norms, back, token, is_token, 0, first_key, row, scale,
        epsilon, 0, normed, half, halves, rank, ranks, precision,
    )  # fmt: skip
    _back(
        to_key, qkv, narrow, ups, c, s, norms, back, token, is_token, first_key, first_value, row,
        scale, epsilon, 1, normed, half, halves, rank, ranks, precision,
    )  # fmt: skip
    _back(
        to_value, qkv, narrow, ups, c, s, norms, back, token, is_token, first_value, heads, row,
        scale, epsilon, 2, False, half, halves, rank, ranks, precision,
    )  # fmt: skip


class InHeads:
    """See `adapted_heads.Turn`."""

    def turn(
        self,
        qkv: Tensor,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        cos: Tensor,
        sin: Tensor,
        norms: Tensor | None,
        epsilon: float,
        heads: tuple[int, int],
        turned: Tensor,
        values: Tensor,
    ) -> None:
        tokens, count = len(qkv), heads[0] + 2 * heads[1]
        kernel: Any = turn[count, triton.cdiv(tokens, TURN["block_tokens"])]
        given = qkv, narrow, ups, cos, sin, ups if norms is None else norms, turned, values
        sizes = tokens, heads[0], sum(heads), count, values.stride(0), cos.stride(0)
        kernel(*given, *sizes, scale, epsilon, **settings(narrow, cos, norms, FEWEST_RANKS), **TURN)

    def back(
        self,
        grads: tuple[Tensor, Tensor, Tensor],
        qkv: Tensor | None,
        narrow: Tensor,
        ups: Tensor,
        scale: float,
        cos: Tensor,
        sin: Tensor,
        norms: Tensor | None,
        epsilon: float,
        heads: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        tokens, count = len(narrow), heads[0] + 2 * heads[1]
        to_qkv = narrow.new_empty((tokens, len(ups))) if qkv is None else qkv
        back = torch.empty_like(narrow)
        kernel: Any = turn_back[(triton.cdiv(tokens, BACK["block_tokens"]),)]
        given = (
            *grads, to_qkv, narrow, ups, cos, sin, ups if norms is None else norms, back,
        )  # fmt: skip
        sizes = tokens, heads[0], sum(heads), count, cos.stride(0)
        kernel(*given, *sizes, scale, epsilon, **settings(narrow, cos, norms, FEWEST_BACK), **BACK)
        return to_qkv, back


def settings(narrow: Tensor, cos: Tensor, norms: Tensor | None, fewest: int) -> dict[str, Any]:
    rank, half = narrow.shape[1] // 3, cos.shape[-1]
    return {
        "normed": norms is not None,
        "half": half,
        "halves": padded(half),
        "rank": rank,
        "ranks": padded(rank, fewest),
        "precision": precision(),
    }
