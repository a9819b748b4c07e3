"""Dropout inside the narrow products of adapters: masks exist only in registers, so that neither they nor the
dropped inputs pass through memory."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..dropout import Drops, limit
from .tiles import is_dropped, padded, precision

OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
# Tokens and columns of a block, and how many blocks are loaded ahead.
PROJECT = {"block_tokens": 32, "block_width": 128, "num_stages": 3, **OPTIONS}
TO_DOWNS = {"block_tokens": 64, "block_width": 64, "num_stages": 3, **OPTIONS}
TO_DOWNS_FP32 = {**TO_DOWNS, "block_tokens": 32, "block_width": 32}
THROUGH = {"block_tokens": 32, "block_width": 64, "num_stages": 1, **OPTIONS}
DROP = {"block_tokens": 8, "block_width": 256, **OPTIONS}
SUM = {"block": 1024, **OPTIONS}
# Of a larger rank, this many at once; without tensor cores, sums of more would not fit into registers.
MOST_RANKS, MOST_RANKS_FP32 = 64, 16
# Sums over tokens are formed in parts, so that a card has enough to do, and then added.
PART_TOKENS, MOST_PARTS = 1024, 32


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def project(  # type: ignore[no-untyped-def]
    x,  # noqa: ANN001
    down,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    out,  # noqa: ANN001
    tokens,  # noqa: ANN001
    width,  # noqa: ANN001
    stride,  # noqa: ANN001
    limit,  # noqa: ANN001
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    """out = dropout(x) A^T for a block of tokens and some ranks of a layer."""
    layer = tl.program_id(0) // tl.cdiv(rank, ranks)
    place = tl.program_id(0) % tl.cdiv(rank, ranks) * ranks + tl.arange(0, ranks)
    row = (layer * rank + place).to(tl.int64)
    token = tl.program_id(1).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    is_token, is_rank = token < tokens, place < rank
    key = tl.load(keys + token, mask=is_token, other=0)
    total = tl.zeros((block_tokens, ranks), tl.float32)
    for at in range(0, width, block_width):
        column = at + tl.arange(0, block_width)
        inside = column < width
        own = tl.load(columns + layer * width + column, mask=inside, other=0)
        part = tl.load(
            x + token[:, None] * width + column[None, :], mask=is_token[:, None] & inside[None, :], other=0.0
        )
        part = tl.where(is_dropped(key, own, limit), 0.0, part).to(x.dtype.element_ty)
        a = tl.load(
            down + row[None, :] * width + column[:, None], mask=is_rank[None, :] & inside[:, None], other=0.0
        )
        total = tl.dot(part, a, total, input_precision=precision)
    tl.store(
        out + token[:, None] * stride + row[None, :],
        total.to(out.dtype.element_ty),
        mask=is_token[:, None] & is_rank[None, :],
    )


@triton.jit(do_not_specialize=["tokens", "part_tokens"])  # type: ignore[untyped-decorator]
def to_downs(  # type: ignore[no-untyped-def]
    back,  # noqa: ANN001
    x,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    parts,  # noqa: ANN001
    tokens,  # noqa: ANN001
    part_tokens,  # noqa: ANN001
    rows,  # noqa: ANN001
    width,  # noqa: ANN001
    stride,  # noqa: ANN001
    limit,  # noqa: ANN001
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    """back^T dropout(x) over a part of the tokens, for a block of columns and some ranks of a layer."""
    layer = tl.program_id(0) // tl.cdiv(rank, ranks)
    place = tl.program_id(0) % tl.cdiv(rank, ranks) * ranks + tl.arange(0, ranks)
    row = (layer * rank + place).to(tl.int64)
    column = tl.program_id(1) * block_width + tl.arange(0, block_width)
    is_rank, inside = place < rank, column < width
    own = tl.load(columns + layer * width + column, mask=inside, other=0)
    start = tl.program_id(2) * part_tokens
    end = tl.minimum(start + part_tokens, tokens)
    total = tl.zeros((ranks, block_width), tl.float32)
    for at in range(start, end, block_tokens):
        token = (at + tl.arange(0, block_tokens)).to(tl.int64)
        is_token = token < end
        key = tl.load(keys + token, mask=is_token, other=0)
        left = tl.load(
            back + token[:, None] * stride + row[None, :],
            mask=is_token[:, None] & is_rank[None, :],
            other=0.0,
        )
        part = tl.load(
            x + token[:, None] * width + column[None, :], mask=is_token[:, None] & inside[None, :], other=0.0
        )
        part = tl.where(is_dropped(key, own, limit), 0.0, part).to(x.dtype.element_ty)
        total = tl.dot(tl.trans(left), part, total, input_precision=precision)
    tl.store(
        parts + (tl.program_id(2).to(tl.int64) * rows + row[:, None]) * width + column[None, :],
        total,
        mask=is_rank[:, None] & inside[None, :],
    )


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def sum_parts(  # type: ignore[no-untyped-def]
    parts,  # noqa: ANN001
    out,  # noqa: ANN001
    count,  # noqa: ANN001
    size,  # noqa: ANN001
    keep: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """The sum of `count` vectors, added to `out` with `keep`."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    total = tl.zeros((block,), tl.float32)
    for _ in range(count):
        total += tl.load(parts + at, mask=inside, other=0.0)
        parts += size
    if keep:
        total += tl.load(out + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def through_downs(  # type: ignore[no-untyped-def]
    to_x,  # noqa: ANN001
    back,  # noqa: ANN001
    down,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    tokens,  # noqa: ANN001
    width,  # noqa: ANN001
    stride,  # noqa: ANN001
    limit,  # noqa: ANN001
    layers: tl.constexpr,
    rank: tl.constexpr,
    ranks: tl.constexpr,
    precision: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    """Adds back A of each layer, where it has not dropped, to a block of the input's gradient."""
    column = tl.program_id(0) * block_width + tl.arange(0, block_width)
    token = tl.program_id(1).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    is_token, inside = token < tokens, column < width
    key = tl.load(keys + token, mask=is_token, other=0)
    total = tl.zeros((block_tokens, block_width), tl.float32)
    for layer in tl.static_range(layers):
        product = tl.zeros((block_tokens, block_width), tl.float32)
        for first in range(0, rank, ranks):
            place = first + tl.arange(0, ranks)
            is_rank, row = place < rank, layer * rank + place
            left = tl.load(
                back + token[:, None] * stride + row[None, :],
                mask=is_token[:, None] & is_rank[None, :],
                other=0.0,
            )
            a = tl.load(
                down + row[:, None] * width + column[None, :],
                mask=is_rank[:, None] & inside[None, :],
                other=0.0,
            )
            product = tl.dot(left, a, product, input_precision=precision)
        own = tl.load(columns + layer * width + column, mask=inside, other=0)
        total += tl.where(is_dropped(key, own, limit), 0.0, product)
    place = to_x + token[:, None] * width + column[None, :]
    inside = is_token[:, None] & inside[None, :]
    total += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    tl.store(place, total.to(to_x.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["tokens"])  # type: ignore[untyped-decorator]
def drop_inputs(  # type: ignore[no-untyped-def]
    x,  # noqa: ANN001
    keys,  # noqa: ANN001
    columns,  # noqa: ANN001
    out,  # noqa: ANN001
    rest,  # noqa: ANN001
    tokens,  # noqa: ANN001
    width,  # noqa: ANN001
    limit,  # noqa: ANN001
    factor,  # noqa: ANN001
    want_rest: tl.constexpr,
    block_tokens: tl.constexpr,
    block_width: tl.constexpr,
) -> None:
    column = tl.program_id(0) * block_width + tl.arange(0, block_width)
    token = tl.program_id(1).to(tl.int64) * block_tokens + tl.arange(0, block_tokens)
    is_token, inside = token < tokens, column < width
    key = tl.load(keys + token, mask=is_token, other=0)
    own = tl.load(columns + column, mask=inside, other=0)
    place = token[:, None] * width + column[None, :]
    inside = is_token[:, None] & inside[None, :]
    part = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    kept = tl.where(is_dropped(key, own, limit), 0.0, part * factor).to(out.dtype.element_ty)
    tl.store(out + place, kept, mask=inside)
    if want_rest:
        tl.store(rest + place, (part - kept.to(tl.float32)).to(rest.dtype.element_ty), mask=inside)


class InProducts:
    """See `Dropout`. Inputs and their gradients are read and written as often as without dropout."""

    def project(self, x: Tensor, down: Tensor, drops: Drops, out: Tensor) -> None:
        settings = _settings(down, drops, x.dtype)
        grid = (_programs(drops, settings), triton.cdiv(len(x), PROJECT["block_tokens"]))
        kernel: Any = project[grid]
        x, size = x.contiguous(), (len(x), x.shape[1], out.stride(0), limit(drops.share))
        kernel(x, down, drops.keys, drops.columns, out, *size, **settings, **PROJECT)

    def add_to_downs(self, back: Tensor, x: Tensor, drops: Drops, out: Tensor, *, keep: bool) -> None:
        settings = {**_settings(out, drops, x.dtype), **to_downs_blocks(x.dtype)}
        tokens, width = x.shape
        count, part_tokens = parts_of(tokens, settings["block_tokens"])
        parts = torch.empty((count, *out.shape), dtype=torch.float32, device=x.device)
        columns = triton.cdiv(width, settings["block_width"])
        kernel: Any = to_downs[_programs(drops, settings), columns, count]
        kernel(
            back,
            x.contiguous(),
            drops.keys,
            drops.columns,
            parts,
            tokens,
            part_tokens,
            len(out),
            width,
            back.stride(0),
            limit(drops.share),
            **settings,
        )
        add_parts(parts, out, keep=keep)

    def add_through_downs(self, to_x: Tensor, back: Tensor, down: Tensor, drops: Drops) -> None:
        tokens, width = to_x.shape
        grid = (triton.cdiv(width, THROUGH["block_width"]), triton.cdiv(tokens, THROUGH["block_tokens"]))
        kernel: Any = through_downs[grid]
        size = tokens, width, back.stride(0), limit(drops.share)
        settings = {"layers": len(drops.columns), **_settings(down, drops, to_x.dtype), **THROUGH}
        kernel(to_x, back, down, drops.keys, drops.columns, *size, **settings)

    def drop(self, x: Tensor, drops: Drops, into: Tensor, rest: Tensor | None = None) -> None:
        tokens, width = x.shape
        grid = (triton.cdiv(width, DROP["block_width"]), triton.cdiv(tokens, DROP["block_tokens"]))
        kernel: Any = drop_inputs[grid]
        size = tokens, width, limit(drops.share), 1 / (1 - drops.share)
        places = x.contiguous(), drops.keys, drops.columns, into, into if rest is None else rest
        kernel(*places, *size, want_rest=rest is not None, **DROP)


def parts_of(tokens: int, block: int) -> tuple[int, int]:
    """How many parts of the tokens are summed, and the tokens of each: whole blocks."""
    count: int = min(triton.cdiv(tokens, PART_TOKENS), MOST_PARTS)
    return count, triton.cdiv(triton.cdiv(tokens, count), block) * block


def add_parts(parts: Tensor, out: Tensor, *, keep: bool) -> None:
    """The sum of parts [count, ...] like `out`, added to it with `keep`."""
    adds: Any = sum_parts[(triton.cdiv(out.numel(), SUM["block"]),)]
    adds(parts, out, len(parts), out.numel(), keep=keep, **SUM)


def to_downs_blocks(dtype: torch.dtype) -> dict[str, Any]:
    return TO_DOWNS_FP32 if dtype == torch.float32 else TO_DOWNS


def ranks_of(rank: int, dtype: torch.dtype) -> dict[str, int]:
    most = MOST_RANKS_FP32 if dtype == torch.float32 else MOST_RANKS
    return {"rank": rank, "ranks": min(padded(rank), most)}


def _settings(down: Tensor, drops: Drops, dtype: torch.dtype) -> dict[str, Any]:
    return {**ranks_of(len(down) // len(drops.columns), dtype), "precision": precision()}


def _programs(drops: Drops, settings: dict[str, Any]) -> int:
    """One for each layer and its ranks at once."""
    return len(drops.columns) * int(triton.cdiv(settings["rank"], settings["ranks"]))
