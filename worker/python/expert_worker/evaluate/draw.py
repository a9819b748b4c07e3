"""Sampling from a model's scores, each row with its own random numbers: one per token, whatever the other
rows of the batch are. Temperature, then top-k, top-p and min-p, as transformers orders them.

transformers draws one number per entry of the vocabulary from the process's generator, so an answer depends
on the batch that it is in, and sorts the whole vocabulary for top-p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from expert_worker.plan import Decoding


class Draw(LogitsProcessor):
    """Leaves each row the token that was drawn; greedy decoding then takes it."""

    def __init__(self, decoding: Decoding, seeds: Sequence[int]) -> None:
        self._decoding = decoding
        self._random = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, _input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        tokens, shares = likely(scores.float() / self._decoding.temperature, self._decoding)
        numbers = torch.cat([torch.rand(1, generator=it, dtype=torch.float64) for it in self._random])
        ends = shares.double().cumsum(1)
        # The first place where the sum passes a number below the whole: a share of 0 is never it.
        wanted = numbers.to(ends.device)[:, None] * ends[:, -1:]
        places = torch.searchsorted(ends, wanted, right=True).clamp(max=ends.shape[1] - 1)
        drawn = places if tokens is None else tokens.gather(1, places)
        return torch.full_like(scores, float("-inf")).scatter_(1, drawn, 0.0)

    def keep(self, rows: Sequence[int]) -> None:
        """The batch continues with these rows alone."""
        self._random = [self._random[row] for row in rows]


def likely(scores: torch.Tensor, decoding: Decoding) -> tuple[torch.Tensor | None, torch.Tensor]:
    """The tokens that may be drawn (None: all, in order), and their shares, which need not add up to 1."""
    count = scores.shape[1]
    if 0 < decoding.top_k < count or decoding.top_p < 1.0:
        scores, tokens = scores.topk(min(decoding.top_k or count, count), dim=1)
    else:
        tokens = None
    shares = scores.softmax(1)
    if decoding.top_p < 1.0:
        # What the likelier tokens leave open; the likeliest always stays.
        before = shares.cumsum(1) - shares
        shares = shares.masked_fill((before >= decoding.top_p) & (before > 0), 0.0)
    if decoding.min_p > 0:
        shares = shares.masked_fill(shares < decoding.min_p * shares.amax(1, keepdim=True), 0.0)
    return tokens, shares
