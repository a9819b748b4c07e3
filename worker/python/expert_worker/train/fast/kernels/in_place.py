"""Products in the memory of a factor."""

from __future__ import annotations

import torch
from torch import Tensor


def multiplied(x: Tensor, factor: Tensor) -> Tensor:
    """x * factor, where nothing else needs `x`."""
    if torch.compiler.is_compiling():
        # The compiler decides where it is kept; and with torch 2.11, an output of an autograd function that
        # was changed in place has no gradient.
        return x * factor
    return x.mul_(factor)
