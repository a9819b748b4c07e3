"""Answers that conform to a grammar: tokens that would break it get no probability. llguidance keeps track.

llguidance rather than xgrammar: MIT, one wheel without dependencies (xgrammar brings torch's CUDA packages),
and tokenizers of Hugging Face as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import LogitsProcessor

from expert_worker.base import token_vectors
from expert_worker.errors import BadInput, Failed
from expert_worker.evaluate.guidance import check_grammar, first_line, guidance, matcher, why_stopped
from expert_worker.plan import Grammar
from expert_worker.schema_grammar import OF_PROMPT

_tokenizers: WeakKeyDictionary[Any, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


class Constraint(LogitsProcessor):
    """Of one batch. `ends` are the tokens that end an answer, allowed where the grammar is complete."""

    def __init__(
        self,
        grammar: Grammar,
        model: Any,
        tokenizer: Any,
        ends: Sequence[int],
        ids: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        check_grammar(grammar)
        self._grammar, self._start, self._ends = grammar, ids.shape[1], frozenset(ends)
        # Some tokenizers have more tokens than the base has vectors (Gemma 3).
        self._size = max(len(tokenizer), token_vectors.count(model))
        known = _llguidance_tokenizer(self._size, tokenizer, ends)
        prompts = _texts(tokenizer, ids, mask) if grammar.kind in OF_PROMPT else [""] * len(ids)
        first = {prompt: matcher(grammar, guidance(grammar, prompt), known) for prompt in set(prompts)}
        # None is an answer that has ended: transformers fills it up.
        self._rows = [first[prompt].deep_copy() for prompt in prompts]
        self._allowed: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] > self._start:
            self._advance(input_ids[:, -1].tolist())
        self._allowed = self._mask(scores.shape[1])
        return scores.masked_fill(~self._allowed.to(scores.device), float("-inf"))

    def keep(self, rows: Sequence[int]) -> None:
        """The batch continues with these rows alone."""
        self._rows = [self._rows[row] for row in rows]
        if self._allowed is not None:
            self._allowed = self._allowed[list(rows)]

    def _advance(self, tokens: Sequence[int]) -> None:
        allowed = self._allowed
        for place, token in enumerate(tokens):
            row = self._rows[place]
            if row is None or allowed is None:
                continue
            # Where the grammar does not allow it, a stop sequence has ended the answer, and this is padding.
            if token in self._ends or not bool(allowed[place, token]):
                self._rows[place] = None
            elif not row.consume_token(token):
                self._fail_on(row)

    def _mask(self, width: int) -> torch.Tensor:
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(len(self._rows), max(self._size, width))
        for place, row in enumerate(self._rows):
            if row is not None:
                fill_next_token_bitmask(row, bits, place)
                self._fail_on(row)
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, :width]
        mask = torch.from_numpy(allowed.astype(np.bool_))
        if not bool(mask.any(dim=1).all()):
            raise Failed(
                f"No token of this base continues an answer that {self._grammar.name} allows",
                hint="Write the grammar for the characters that the base's tokenizer has.",
                code="grammar-failed",
            )
        return mask

    def _fail_on(self, matcher: Any) -> None:
        if matcher.is_error():
            raise Failed(
                why_stopped(self._grammar, matcher),
                hint="Make its rules less ambiguous, or its repetitions shorter.",
                code="grammar-failed",
            )


def _texts(tokenizer: Any, ids: torch.Tensor, mask: torch.Tensor) -> list[str]:
    rows = [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]
    return [str(text) for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


def _llguidance_tokenizer(size: int, tokenizer: Any, ends: Sequence[int]) -> Any:
    """Takes about a second for a large vocabulary, so it is kept as long as the tokenizer."""
    from llguidance.hf import from_tokenizer

    if not ends:
        raise BadInput(
            "This base has no token that ends an answer, so no answer can be constrained by a grammar",
            hint="Set training.decoding.use_grammar to false.",
            code="grammar-unusable",
        )
    known = _tokenizers.setdefault(tokenizer, {})
    key = (size, *sorted(ends))
    if key not in known:
        try:
            known[key] = from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends))
        except ValueError as error:
            raise BadInput(
                f"Answers of this base cannot be constrained by a grammar: {first_line(str(error))}",
                hint="Set training.decoding.use_grammar to false.",
                code="grammar-unusable",
            ) from None
    return known[key]
