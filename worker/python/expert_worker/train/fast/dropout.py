"""Counter-based dropout: a mask depends on an element's position, never on earlier draws.

A token's key comes from (seed, step, row, position in the row), a module's from its name; mixing the two
with the column gives one 32-bit number per element. So a mask is the same whatever the micro-batch, the
pieces in which a batch is walked, or the number of restarts, and the backward pass computes it again
instead of keeping it.
"""

from __future__ import annotations

import threading
import zlib
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .kernels.dropout import dropped, scramble_, words

_WORD = 0xFFFFFFFF


def _signed(value: int) -> int:
    """The same 32 bits as torch's int32 reads them."""
    value &= _WORD
    return value - (1 << 32) if value >= 1 << 31 else value


def mix(value: int) -> int:
    """A well-mixed 32-bit word of any whole number (two rounds of xor-shift and multiply)."""
    value = (value ^ (value >> 32)) & _WORD
    for factor in (0x7FEB352D, 0x846CA68B):
        value = ((value ^ (value >> 16)) * factor) & _WORD
    return value ^ (value >> 16)


def token_keys(
    seed: int, step: int, rows: list[int], lengths: list[int], device: torch.device | str = "cpu"
) -> Tensor:
    """One int32 per token of the packed rows; `rows` are the rows' numbers in the whole data set."""
    stem = mix(mix(seed) + 0x9E3779B9 * (step + 1))
    starts = torch.tensor([_signed(mix(stem + 0x85EBCA6B * (row + 1))) for row in rows], dtype=torch.int32)
    counts = torch.tensor(lengths)
    within = torch.arange(int(counts.sum())) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    keys = torch.repeat_interleave(starts, counts) + within.to(torch.int32) * _signed(0x9E3779B1)
    return scramble_(keys).to(device)


class Tokens(NamedTuple):
    """The tokens that pass through a module: their dropout keys, and how many are each expert's where several
    train together."""

    keys: Tensor | None
    of_experts: tuple[int, ...] = ()


class Place:
    """Where the tokens of the current forward pass stand; shared by every module that draws.

    On CUDA the backward pass, and with it recomputation, runs on a thread of autograd's: what one thread has
    set must be seen by the others."""

    def __init__(self, keys: Tensor | None = None) -> None:
        self.keys = keys
        # Of the plain path's tokens, where it adds NEFTune's noise.
        self.noise_lengths: Tensor | None = None

    def enter(self, tokens: Tokens) -> None:
        self.keys = tokens.keys


class PlaceByThread(Place, threading.local):
    """For several forward passes at once on a CPU, each on its thread that walks its own way back too."""


class Columns:
    """A module's column keys, made once for each device."""

    def __init__(self, name: str) -> None:
        self._stem = zlib.crc32(name.encode())
        self._made: dict[tuple[int, torch.device], Tensor] = {}

    def of(self, width: int, device: torch.device) -> Tensor:
        found = self._made.get((width, device))
        if found is None:
            found = torch.arange(width, dtype=torch.int32, device=device) * _signed(0x85EBCA77) + _signed(
                self._stem
            )
            self._made[width, device] = scramble_(found)
        return found


def uniform(keys: Tensor, columns: Tensor) -> Tensor:
    """Numbers between -1 and 1."""
    return words(keys, columns).to(torch.float32) / float(1 << 31)


class Draw(NamedTuple):
    """Decides which elements of an input are dropped; none without keys."""

    keys: Tensor | None
    columns: Tensor | None
    share: float

    def mask(self) -> Tensor | None:
        """True where an element of the [tokens, width] input is dropped."""
        if self.keys is None or self.columns is None:
            return None
        return dropped(self.keys, self.columns, self.share)


NOTHING = Draw(None, None, 0.0)


class CounterDropout(nn.Module):
    """Replaces `nn.Dropout` in peft's layers, on the plain path too."""

    def __init__(self, share: float, name: str, place: Place) -> None:
        super().__init__()
        self.p = share
        self.columns = Columns(name)
        self.place = place

    def draw(self, width: int) -> Draw:
        """For an input of the current tokens."""
        keys = self.place.keys if self.training and self.p > 0 else None
        return NOTHING if keys is None else Draw(keys, self.columns.of(width, keys.device), self.p)

    def forward(self, x: Tensor) -> Tensor:
        mask = self.draw(x.shape[-1]).mask()
        return x if mask is None else x.masked_fill(mask.view(x.shape), 0) / (1 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, by counter"


def install(model: nn.Module, place: Place) -> int:
    """Replaces every dropout of the adapters; returns how many."""
    found = [
        (parent, key, child, f"{path}.{key}")
        for path, parent in model.named_modules()
        if path.rpartition(".")[2] == "lora_dropout"
        for key, child in parent.named_children()
        if isinstance(child, nn.Dropout) and child.p > 0
    ]
    for parent, key, child, name in found:
        replacement = CounterDropout(child.p, name, place)
        replacement.train(child.training)
        parent._modules[key] = replacement
    return len(found)
