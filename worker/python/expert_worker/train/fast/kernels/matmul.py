"""Matrix products, with the fastest available library.

In fp32 on a CPU torch uses MKL. On Intel's CPUs it is the faster one: with AVX-512 by a tenth, and nearly
twice as fast where one side is as narrow as a LoRA's rank. On others it uses its AVX2 kernels, which are
faster than oneDNN's, also part of torch, by up to a half on an AMD CPU that has no more. With AVX-512 there
oneDNN is faster: it uses the CPU's best instructions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from expert_worker.processor import is_intel

from .registry import Kernel, Operation


def _onednn() -> Any:
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_LINEAR = _onednn()


def _mkl_is_faster() -> bool:
    if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return False
    return is_intel() or torch.backends.cpu.get_cpu_capability() != "AVX512"


_MKL_IS_FASTER = _mkl_is_faster()


def _runs_onednn(x: Tensor) -> bool:
    if _LINEAR is None or _MKL_IS_FASTER:
        return False
    return x.dtype == torch.float32 and x.device.type == "cpu" and x.shape[0] > 0


def _by_onednn(x: Tensor, weight: Tensor, out: Tensor | None) -> Tensor:
    product: Tensor
    if out is None:
        product = _LINEAR(x, weight, None, "none", [], "")
    else:
        product = _LINEAR.binary(x, out, weight, None, "add")
    return product


def _by_torch(x: Tensor, weight: Tensor, out: Tensor | None) -> Tensor:
    return x @ weight.t() if out is None else out.addmm_(x, weight.t())


# x W^T, added to `out` if it is given, which is used up. Chosen for each product by `x`.
MATMUL = Operation("matmul", [Kernel("onednn", _by_onednn, _runs_onednn), Kernel("torch", _by_torch)])


def times_transposed(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T, with `weight` as a linear layer keeps it."""
    return MATMUL.choose(x).function(x, weight, None)


def times(x: Tensor, weight: Tensor) -> Tensor:
    """x W: the backward pass of a linear layer."""
    return times_transposed(x, weight.t())


def added_transposed(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """out + x W^T; `out` is used up."""
    return MATMUL.choose(x).function(x, weight, out)


def added(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """out + x W; `out` is used up."""
    return added_transposed(out, x, weight.t())


def over_tokens(narrow: Tensor, wide: Tensor) -> Tensor:
    """narrow^T wide: the gradient of a matrix between two activations, summed over tokens. The narrower
    comes first, which is the faster way round."""
    return times_transposed(narrow.t(), wide.t())


def product_into(out: Tensor, left: Tensor, right: Tensor, scale: float, *, keep: bool = False) -> None:
    """scale * left right into `out`, to which it is added with `keep`: matrices, or as many in each."""
    if out.dtype != left.dtype and not _widens(out.device):
        made = torch.empty_like(out, dtype=left.dtype)
        product_into(made, left, right, scale)
        _ = out.add_(made) if keep else out.copy_(made)
        return
    of = torch.ops.aten.addmm if out.dim() == 2 else torch.ops.aten.baddbmm
    settings = {"beta": 1.0 if keep else 0.0, "alpha": scale, "out": out}
    if out.dtype == left.dtype:
        of.out(out, left, right, **settings)
    else:
        of.dtype_out(out, left, right, out.dtype, **settings)


@cache
def _widens(device: torch.device) -> bool:
    """Whether a product of 16-bit matrices can be written in 32 bits."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
