"""What several kernels share: outputs of adapted layers, of which memory has only the base's part."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ..dropout import FIRST, SECOND, SHIFT

_FIRST, _SECOND, _SHIFT = tl.constexpr(FIRST), tl.constexpr(SECOND), tl.constexpr(SHIFT)

# A product needs a side of 16.
FEWEST_RANKS = 16


def padded(rank: int, fewest: int = FEWEST_RANKS) -> int:
    """The side of a block that holds a rank: a power of two."""
    return max(int(triton.next_power_of_2(rank)), fewest)


def precision() -> str:
    """Of products in 32 bits."""
    return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"


@triton.jit
def is_dropped(keys, columns, limit):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    word = (keys[:, None] ^ columns[None, :]) * _FIRST
    return ((word ^ (word >> _SHIFT)) * _SECOND) < limit


@triton.jit
def load_tile(place, stride, row, column, is_row, inside):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Rows and columns of a matrix; zeros outside of it."""
    return tl.load(
        place + row[:, None] * stride + column[None, :], mask=is_row[:, None] & inside[None, :], other=0.0
    )


@triton.jit  # type: ignore[untyped-decorator]
def adapted_tile(  # type: ignore[no-untyped-def] # noqa: ANN201
    of_base,  # noqa: ANN001
    stride,  # noqa: ANN001
    token,  # noqa: ANN001
    column,  # noqa: ANN001
    is_token,  # noqa: ANN001
    inside,  # noqa: ANN001
    narrow,  # noqa: ANN001
    up,  # noqa: ANN001
    scale,  # noqa: ANN001
    precision: tl.constexpr,
):
    """of_base + scale * narrow up in fp32; `up` is a tile of B^T."""
    base = load_tile(of_base, stride, token, column, is_token, inside).to(tl.float32)
    return base + scale * tl.dot(narrow, up, input_precision=precision)
