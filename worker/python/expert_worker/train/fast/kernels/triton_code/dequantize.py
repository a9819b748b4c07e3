"""Weights in blocks of 4 bits, as bitsandbytes keeps them, in one launch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Of packed weights, for each program.
BYTES = 2048
# A product and a sum stay two operations, as in bitsandbytes, which has a kernel for each: fused, they would
# be rounded once, and the last bit of some weights would be another.
OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}
FORMATS = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


@triton.jit  # type: ignore[untyped-decorator]
def unpack(  # type: ignore[no-untyped-def]
    packed,  # noqa: ANN001
    scales,  # noqa: ANN001
    scale_codes,  # noqa: ANN001
    scales_of_scales,  # noqa: ANN001
    offset,  # noqa: ANN001
    codes,  # noqa: ANN001
    out,  # noqa: ANN001
    numbers,  # noqa: ANN001
    size,  # noqa: ANN001
    nested: tl.constexpr,
    scale_block: tl.constexpr,
    through: tl.constexpr,
    blocks: tl.constexpr,
    half: tl.constexpr,
) -> None:
    """`numbers` of 4 bits in `size` bytes, in blocks of `half` as many bytes as numbers that have one scale.
    `through`: the format that bitsandbytes rounds to first, which the weight had before it was quantized."""
    first = tl.program_id(0).to(tl.int64) * blocks
    left = numbers - first * (2 * half)
    block = tl.arange(0, blocks)
    is_block = block < tl.cdiv(left, 2 * half)
    if nested:
        code = tl.load(scales + first + block, mask=is_block, other=0).to(tl.int32)
        wide = tl.load(scales_of_scales + (first + block) // scale_block, mask=is_block, other=0.0)
        scale = tl.load(scale_codes + code) * wide + tl.load(offset)
    else:
        scale = tl.load(scales + first + block, mask=is_block, other=0.0)
    at = block[:, None] * half + tl.arange(0, half)[None, :]
    byte = tl.load(packed + first * half + at, mask=at < size - first * half, other=0).to(tl.int32)
    high = tl.load(codes + (byte >> 4)) * scale[:, None]
    low = tl.load(codes + (byte & 15)) * scale[:, None]
    values = tl.interleave(high, low).to(through).to(out.dtype.element_ty)
    at = block[:, None] * (2 * half) + tl.arange(0, 2 * half)[None, :]
    tl.store(out + first * (2 * half) + at, values, mask=at < left)


def dequantize(weight: Any, out: Tensor) -> None:
    """A `Params4bit` into `out`."""
    state = weight.quant_state
    numbers, half = out.numel(), state.blocksize // 2
    blocks = max(BYTES // half, 1)
    packed = weight.data.view(-1).view(torch.uint8)
    # Those of the scales are not read where there are none.
    inner = state.state2 if state.nested else state
    kernel: Any = unpack[(triton.cdiv(numbers, 2 * half * blocks),)]
    kernel(
        packed,
        state.absmax,
        inner.code,
        inner.absmax,
        state.offset if state.nested else state.absmax,
        state.code,
        out,
        numbers,
        packed.numel(),
        nested=state.nested,
        scale_block=inner.blocksize,
        through=FORMATS[state.dtype],
        blocks=blocks,
        half=half,
        **OPTIONS,
    )
