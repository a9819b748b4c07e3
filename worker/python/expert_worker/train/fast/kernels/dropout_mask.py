"""Which elements are dropped, from one 32-bit number per token and one per column."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .registry import Kernel, Operation

# From the tokens' keys, the columns' keys and the share to drop.
Mask = Callable[[Tensor, Tensor, float], Tensor]

_FIRST, _SECOND = 0x2C1B3C6D, 0x297A2D39


def scramble_(words: Tensor) -> Tensor:
    """In place, so that nearby words share no visible pattern. It ends in a multiplication because torch's
    shift copies the sign: a last xor-shift would clear it."""
    words.mul_(_FIRST)
    words.bitwise_xor_(words >> 15)
    return words.mul_(_SECOND)


def words(keys: Tensor, columns: Tensor) -> Tensor:
    """One int32 for each (token, column), uniform over all 32 bits."""
    return scramble_(keys.unsqueeze(-1) ^ columns)


def dropped(keys: Tensor, columns: Tensor, share: float) -> Tensor:
    """True where an element is dropped."""
    return words(keys, columns) < int(share * (1 << 32)) - (1 << 31)


# Chosen for each input by its keys. Another kernel must drop the same elements.
DROPOUT_MASK: Operation[Tensor, Mask] = Operation("dropout_mask", [Kernel("torch", dropped)])
