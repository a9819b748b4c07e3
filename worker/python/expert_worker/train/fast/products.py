"""Matrix products, by the fastest library at hand.

In 32 bits on a CPU torch asks MKL, which on processors that are not Intel's takes its AVX2 kernels; oneDNN,
which torch carries too, uses whatever the processor has and is nowhere much slower.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _onednn() -> Any:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_LINEAR = _onednn()


def _by_onednn(x: Tensor) -> bool:
    if torch.compiler.is_compiling():
        return False  # The compiler has its own choice of libraries, and no picture of this operator.
    return _LINEAR is not None and x.dtype == torch.float32 and x.device.type == "cpu" and x.shape[0] > 0


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T, with `weight` as a linear layer keeps it."""
    if not _by_onednn(x):
        return x @ weight.t()
    product: Tensor = _LINEAR(x, weight, None, "none", [], "")
    return product


def times(x: Tensor, weight: Tensor) -> Tensor:
    """x W: the way back through a linear layer."""
    return times_transposed(x, weight.t())


def added_transposed(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """out + x W^T; `out` is used up."""
    if not _by_onednn(x):
        return out.addmm_(x, weight.t())
    total: Tensor = _LINEAR.binary(x, out, weight, None, "add")
    return total


def added(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """out + x W; `out` is used up."""
    return added_transposed(out, x, weight.t())


def over_tokens(narrow: Tensor, wide: Tensor) -> Tensor:
    """narrow^T wide: the gradient of a matrix between two activations, summed over tokens. The narrower
    comes first, which is the faster way round."""
    return times_transposed(narrow.t(), wide.t())
